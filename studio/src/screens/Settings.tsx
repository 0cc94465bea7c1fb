// The caller, how the page looks, and the keys.
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { post, remove } from '../api/client';
import { keys, projects, servers } from '../api/queries';
import type { CreatedKey, ServerList } from '../api/types';
import { useMay, useMe } from '../session/me';
import { Badge, Dialog, Empty, Failed, Fields, Heading, Loading, Refused, Scroll, Short } from '../ui/parts';
import { setTheme, type Theme, useTheme } from '../ui/theme';
import { Time } from '../ui/time';

const THEMES: [Theme, string][] = [
  ['system', 'As the system'],
  ['light', 'Light'],
  ['dark', 'Dark'],
];

export function SettingsScreen() {
  const me = useMe();
  const theme = useTheme();
  const isAdmin = useMay('admin');
  const mayRead = useMay('read');
  return (
    <>
      <Heading title="Settings" />
      <h2>You</h2>
      {me && (
        <Fields
          of={[
            ['Name', me.principal],
            ['Kind', me.kind.toLowerCase()],
            ['Project', me.project],
            ['Roles', me.roles.join(', ') || 'none'],
            ['Groups', me.groups.includes('*') ? 'every group' : me.groups.join(', ') || 'none'],
          ]}
        />
      )}
      <h2>Looks</h2>
      <div className="segments" role="group" aria-label="Colours">
        {THEMES.map(([name, label]) => (
          <button key={name} type="button" aria-pressed={theme === name} onClick={() => setTheme(name)}>
            {label}
          </button>
        ))}
      </div>
      {mayRead && <Projects />}
      {mayRead && <Servers />}
      {isAdmin && <Keys own={me?.key} />}
    </>
  );
}

function Projects() {
  const query = useQuery(projects);
  return (
    <>
      <h2>Project</h2>
      {query.isPending ? (
        <Loading rows={1} />
      ) : query.isError ? (
        <Failed error={query.error} retry={() => void query.refetch()} />
      ) : (
        query.data.map((one) => (
          <Fields
            key={one.id}
            of={[
              ['Id', <code key="i">{one.id}</code>],
              ['Name', one.name],
              ['Made', <Time key="t" at={one.createdAt} />],
              ['Processes', String(one.processes)],
              ['Tool servers', String(one.servers)],
            ]}
          />
        ))
      )}
    </>
  );
}

/** What agents may call, as it is deployed; the documents of the project change it. */
function Servers() {
  const query = useQuery(servers);
  return (
    <>
      <h2>Tool servers</h2>
      {query.isPending ? (
        <Loading rows={2} />
      ) : query.isError ? (
        <Failed error={query.error} retry={() => void query.refetch()} />
      ) : query.data.length === 0 ? (
        <Empty title="No tool server is deployed">
          A project names them in <code>servers/*.server.yaml</code>.
        </Empty>
      ) : (
        <div className="stack">
          {query.data.map((one) => (
            <Server key={one.name} server={one} />
          ))}
        </div>
      )}
    </>
  );
}

function Server({ server }: { server: ServerList['servers'][number] }) {
  return (
    <section className="card" aria-label={`Tool server ${server.name}`}>
      <div className="row wrap">
        <h3>{server.name}</h3>
        <Badge word={server.transport} tone="grey" />
        {server.url && <code>{server.url}</code>}
        {server.credentialEnv && <span className="muted small">secret in the worker’s {server.credentialEnv}</span>}
        <span className="spring" />
        <span className="muted small">
          v{server.version}, <Short text={server.digest} />, deployed <Time at={server.deployedAt} />
        </span>
      </div>
      {server.description && <p>{server.description}</p>}
      <ul className="work" aria-label={`Tools of ${server.name}`}>
        {server.tools.map((tool) => (
          <li key={tool.name} className="row wrap">
            <code>{tool.name}</code>
            <Badge word={tool.policy} tone={tool.policy === 'read' ? 'green' : 'amber'} />
            {tool.idempotent && <Badge word="keyed" tone="grey" />}
            {(tool.approvers ?? []).length > 0 && <span className="muted">approved by {(tool.approvers ?? []).join(', ')}</span>}
            {tool.description && <span className="muted">{tool.description}</span>}
          </li>
        ))}
      </ul>
      <p className="muted small">Every other tool of it is denied.</p>
    </section>
  );
}

function Keys({ own }: { own?: string }) {
  const client = useQueryClient();
  const list = useQuery(keys);
  const [making, setMaking] = useState(false);
  const [ending, setEnding] = useState<string | null>(null);
  const revoke = useMutation({
    mutationFn: (id: string) => remove(`/v1/keys/${encodeURIComponent(id)}`),
    onSuccess: () => {
      setEnding(null);
      void client.invalidateQueries({ queryKey: ['keys'] });
    },
  });
  const named = list.data?.find((one) => one.id === ending);
  return (
    <>
      <div className="heading">
        <h2>API keys</h2>
        <button type="button" onClick={() => setMaking(true)}>
          Make a key…
        </button>
      </div>
      {list.isPending ? (
        <Loading />
      ) : list.isError ? (
        <Failed error={list.error} retry={() => void list.refetch()} />
      ) : (
        <Scroll label="API keys">
          <table>
            <thead>
              <tr>
                <th scope="col">Of</th>
                <th scope="col">May</th>
                <th scope="col">Made</th>
                <th scope="col">Last used</th>
                <th scope="col">Ends</th>
                <th scope="col">
                  <span className="visually-hidden">Revoke</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {list.data.map((one) => (
                <tr key={one.id}>
                  <th scope="row">
                    {one.principal} <Badge word={one.kind} tone="grey" /> {one.id === own && <Badge word="this session" tone="blue" />}
                  </th>
                  <td>
                    {one.kind === 'WORKER' ? `work on ${(one.topics ?? []).join(', ')}` : (one.roles ?? []).join(', ')}
                    {(one.groups ?? []).length > 0 && <span className="muted"> · groups {(one.groups ?? []).join(', ')}</span>}
                  </td>
                  <td>
                    <Time at={one.createdAt} />
                  </td>
                  <td>{one.lastUsedAt ? <Time at={one.lastUsedAt} /> : <span className="muted">never</span>}</td>
                  <td>{one.expiresAt ? <Time at={one.expiresAt} /> : <span className="muted">never</span>}</td>
                  <td className="right">
                    {one.id !== own && (
                      <button type="button" aria-label={`Revoke the key of ${one.principal}`} onClick={() => setEnding(one.id)}>
                        Revoke…
                      </button>
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scroll>
      )}
      <Dialog open={making} onClose={() => setMaking(false)} title="Make a key">
        <Make />
      </Dialog>
      <Dialog open={ending !== null} onClose={() => setEnding(null)} title={`Revoke this key of ${named?.principal ?? ''}?`}>
        <p>Whoever uses it is refused from now on. This cannot be undone.</p>
        <Refused error={revoke.error} />
        <div className="row end">
          <button type="button" onClick={() => setEnding(null)}>
            Keep it
          </button>
          <button type="button" className="danger" disabled={revoke.isPending} onClick={() => ending && revoke.mutate(ending)}>
            Revoke
          </button>
        </div>
      </Dialog>
    </>
  );
}

const ROLES = ['read', 'start', 'operate', 'deploy', 'admin'];

function Make() {
  const client = useQueryClient();
  const [kind, setKind] = useState<'PERSON' | 'SERVICE' | 'WORKER'>('PERSON');
  const [principal, setPrincipal] = useState('');
  const [groups, setGroups] = useState('');
  const [topics, setTopics] = useState('');
  const [roles, setRoles] = useState<string[]>(['read']);
  const [days, setDays] = useState('');
  const words = (text: string) => text.split(/[\s,]+/).filter((word) => word !== '');
  const make = useMutation({
    mutationFn: () =>
      post<CreatedKey>('/v1/keys', {
        principal: principal.trim(),
        kind,
        groups: kind === 'PERSON' ? words(groups) : [],
        roles: kind === 'WORKER' ? [] : roles,
        topics: kind === 'WORKER' ? words(topics) : [],
        expiresInMs: Number(days) > 0 ? Math.round(Number(days) * 86_400_000) : undefined,
      }),
    onSuccess: () => void client.invalidateQueries({ queryKey: ['keys'] }),
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    make.mutate();
  };
  if (make.data) {
    return (
      <div className="stack" role="status">
        <p>
          The key of <strong>{make.data.key.principal}</strong>. It is shown now and never again.
        </p>
        <pre className="secret" tabIndex={0}>
          {make.data.secret}
        </pre>
        <div className="row end">
          <button type="button" className="primary" onClick={() => void navigator.clipboard?.writeText(make.data.secret)}>
            Copy
          </button>
        </div>
      </div>
    );
  }
  return (
    <form onSubmit={submit} className="stack">
      <div className="segments" role="group" aria-label="Kind">
        {(['PERSON', 'SERVICE', 'WORKER'] as const).map((one) => (
          <button key={one} type="button" aria-pressed={kind === one} onClick={() => setKind(one)}>
            {one.toLowerCase()}
          </button>
        ))}
      </div>
      <label>
        Name
        <input required value={principal} onChange={(event) => setPrincipal(event.target.value)} />
      </label>
      {kind === 'WORKER' && (
        <label>
          Topics
          <input required value={topics} placeholder="payments.payout, mail.*" onChange={(event) => setTopics(event.target.value)} />
        </label>
      )}
      {kind === 'PERSON' && (
        <label>
          Groups
          <input value={groups} placeholder="finance, legal" onChange={(event) => setGroups(event.target.value)} />
        </label>
      )}
      {kind !== 'WORKER' && (
        <fieldset>
          <legend>Roles</legend>
          {ROLES.map((role) => (
            <label key={role} className="choice">
              <input type="checkbox" checked={roles.includes(role)} onChange={(event) => setRoles(event.target.checked ? [...roles, role] : roles.filter((one) => one !== role))} /> {role}
            </label>
          ))}
        </fieldset>
      )}
      <label>
        Ends after days (empty: never)
        <input inputMode="numeric" value={days} onChange={(event) => setDays(event.target.value)} />
      </label>
      <Refused error={make.error} />
      <div className="row end">
        <button type="submit" className="primary" disabled={make.isPending || principal.trim() === ''}>
          Make it
        </button>
      </div>
    </form>
  );
}
