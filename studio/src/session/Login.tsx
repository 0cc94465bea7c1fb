// The door: an API key, or the address that `legation dev` prints.
import { type FormEvent, useEffect, useState } from 'react';
import { post, problem, Refusal } from '../api/client';
import { Refused } from '../ui/parts';
import { logIn } from './session';

/** The code in the address that `legation dev` prints; taken out of the address, so it stays in no history. */
export function takeCode(): string | null {
  const code = new URLSearchParams(location.hash.slice(1)).get('login');
  if (code) history.replaceState(null, '', location.pathname + location.search);
  return code;
}

export function Login({ code }: { code: string | null }) {
  const [key, setKey] = useState('');
  const [busy, setBusy] = useState(code !== null);
  const [error, setError] = useState<unknown>(null);

  useEffect(() => {
    document.title = 'Log in · Legation';
    if (code === null) return;
    post<{ keys: Record<string, string> }>('/v1/dev/login', { code })
      .then(({ keys }) => logIn(keys, 'dev'))
      .catch((refusal: unknown) => {
        setError(new Error('That address has expired: the engine was started again since. It prints a new one.', { cause: refusal }));
        setBusy(false);
      });
  }, [code]);

  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      const response = await fetch('/v1/me', { headers: { authorization: `Bearer ${key.trim()}` }, cache: 'no-store' });
      const text = await response.text();
      if (!response.ok) throw new Refusal(problem(response.status, text));
      const { principal } = JSON.parse(text) as { principal: string };
      logIn({ [principal]: key.trim() }, principal);
    } catch (refusal) {
      setError(refusal instanceof Refusal && refusal.status === 401 ? new Error('The engine does not know this key, or it was revoked or has expired.') : refusal);
      setBusy(false);
    }
  };

  return (
    <main className="login">
      <form onSubmit={(event) => void submit(event)} className="card">
        <h1>Legation</h1>
        <label>
          API key
          <input type="password" autoComplete="off" autoFocus value={key} onChange={(event) => setKey(event.target.value)} disabled={busy} required />
        </label>
        <Refused error={error} />
        <button type="submit" className="primary" disabled={busy || key.trim() === ''}>
          {busy ? 'Logging in…' : 'Log in'}
        </button>
        <p className="muted small">
          The key stays in this tab and is forgotten when you close it. With <code>legation dev</code>, open the address that it prints. Elsewhere{' '}
          <code>legation keys create</code> makes a key.
        </p>
      </form>
    </main>
  );
}
