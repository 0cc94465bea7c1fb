// All versions of a process, and what one changed.
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import * as queries from '../api/queries';
import type { Process } from '../api/types';
import { Badge, Failed, Loading, Scroll, Short } from '../ui/parts';
import { Time } from '../ui/time';
import { diff, hunks } from './diff';

export function Versions({ versions, current }: { versions: Process[]; current: number }) {
  const [shown, setShown] = useState<number | null>(null);
  return (
    <>
      <Scroll label="Versions">
        <table>
          <thead>
            <tr>
              <th scope="col">Version</th>
              <th scope="col">Deployed</th>
              <th scope="col">Digest</th>
              <th scope="col">
                <span className="visually-hidden">Changes</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {versions.map((one) => (
              <tr key={one.version}>
                <th scope="row">
                  <Link to="/processes/$key" params={{ key: one.key }} search={{ version: one.version, tab: 'source' }}>
                    {one.version}
                  </Link>{' '}
                  {one.version === current && <Badge word="shown" tone="blue" />}
                </th>
                <td>
                  <Time at={one.deployedAt} />
                </td>
                <td>
                  <Short text={one.digest} length={20} />
                </td>
                <td className="right">
                  {versions.some((other) => other.version === one.version - 1) && (
                    <button type="button" aria-expanded={shown === one.version} aria-label={`What version ${one.version} changed`} onClick={() => setShown(shown === one.version ? null : one.version)}>
                      What changed
                    </button>
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
      {shown !== null && versions[0] && <Changes process={versions[0].key} version={shown} />}
    </>
  );
}

function Changes({ process, version }: { process: string; version: number }) {
  const before = useQuery(queries.process(process, version - 1));
  const after = useQuery(queries.process(process, version));
  if (before.isError || after.isError) return <Failed error={before.error ?? after.error} />;
  if (!before.data || !after.data) return <Loading />;
  const lines = hunks(diff(before.data.source ?? '', after.data.source ?? ''));
  const isSame = lines.every((line) => line === null);
  return (
    <section aria-label={`What version ${version} changed`}>
      <h2>
        Version {version - 1} to {version}
      </h2>
      {isSame ? (
        <p className="muted">The document is the same; something that it pins, such as a process it delegates to, has a new version.</p>
      ) : (
        <pre className="diff card" tabIndex={0}>
          {lines.map((line, index) =>
            line === null ? (
              <span key={index} className="muted">
                {'…\n'}
              </span>
            ) : (
              <span key={index} className={line.kind}>{`${line.kind === 'gone' ? '−' : line.kind === 'new' ? '+' : ' '} ${line.text}\n`}</span>
            ),
          )}
        </pre>
      )}
    </section>
  );
}
