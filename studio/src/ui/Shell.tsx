// What is around every screen: where one can go, who is logged in, whether the page is live.
import { useInfiniteQuery, useQueryClient } from '@tanstack/react-query';
import { Link, Outlet, useLocation } from '@tanstack/react-router';
import { useEffect, useRef, useState } from 'react';
import { useFeed, useLiveness } from '../api/feed';
import { inbox } from '../api/queries';
import { amount } from '../screens/counts';
import { useMay, useMe } from '../session/me';
import { logOut, switchTo, useSession } from '../session/session';
import { scrollTo } from './parts';

const READ = [
  ['/instances', 'Instances'],
  ['/incidents', 'Incidents'],
  ['/processes', 'Processes'],
  ['/workers', 'Workers'],
] as const;

export function Shell() {
  const mayRead = useMay('read');
  const me = useMe();
  useFeed(mayRead);
  const waiting = useInfiniteQuery(inbox('OPEN'));
  const open = waiting.data?.pages.reduce((sum, page) => sum + page.tasks.length, 0) ?? 0;
  const count = amount(open, waiting.hasNextPage);
  useDocumentTitle(open > 0 ? `(${count}) ` : '');
  // On a phone the menu is wider than the screen.
  const { pathname } = useLocation();
  const menu = useRef<HTMLElement>(null);
  useEffect(() => scrollTo(menu.current, '[aria-current="page"]'), [pathname, mayRead]);
  return (
    <>
      <a className="skip" href="#main">
        Skip to the content
      </a>
      <header className="top">
        <Link to="/" className="brand">
          <img src="/icon.svg" alt="" width="24" height="24" />
          <span>Legation</span>
        </Link>
        <nav aria-label="Main" ref={menu}>
          <Link to="/inbox">
            Inbox{open > 0 && <span className="count hot">{count}</span>}
          </Link>
          {mayRead &&
            READ.map(([to, label]) => (
              <Link key={to} to={to}>
                {label}
              </Link>
            ))}
          <Link to="/settings">Settings</Link>
        </nav>
        <div className="who">
          <Live />
          <Who name={me?.principal} />
        </div>
      </header>
      <main id="main" tabIndex={-1}>
        <Outlet />
      </main>
    </>
  );
}

function Live() {
  const liveness = useLiveness();
  const words = { connecting: 'connecting', live: 'live', polling: 'reconnecting', off: 'every few seconds' };
  return (
    <span className={`live ${liveness}`} title={liveness === 'live' ? 'This page follows the engine' : 'This page asks the engine every few seconds'}>
      {words[liveness]}
    </span>
  );
}

/** Only `legation dev` gives several keys, and so a choice. */
function Who({ name }: { name: string | undefined }) {
  const session = useSession();
  const client = useQueryClient();
  const names = Object.keys(session?.keys ?? {});
  const change = (next: string) => {
    switchTo(next);
    client.clear();
  };
  return (
    <>
      {names.length > 1 ? (
        <select aria-label="Act as" value={session?.current} onChange={(event) => change(event.target.value)}>
          {names.map((one) => (
            <option key={one}>{one}</option>
          ))}
        </select>
      ) : (
        <span className="principal">{name}</span>
      )}
      <button
        type="button"
        className="quiet"
        onClick={() => {
          logOut();
          client.clear();
        }}
      >
        Log out
      </button>
    </>
  );
}

function useDocumentTitle(prefix: string) {
  const [screen, setScreen] = useState('');
  useEffect(() => {
    const read = () => setScreen(document.documentElement.dataset.screen ?? '');
    read();
    window.addEventListener('screen', read);
    return () => window.removeEventListener('screen', read);
  }, []);
  useEffect(() => {
    document.title = `${prefix}${screen ? `${screen} · ` : ''}Legation`;
  }, [prefix, screen]);
}
