import { useId } from 'react';
import { print } from '../api/json';
import type { Draft, Field } from './schema';

/** The fields of a schema; what is typed stays with the caller. */
export function SchemaForm({ list, draft, change, wrong }: { list: Field[]; draft: Draft; change: (name: string, value: string | boolean) => void; wrong: Record<string, string> }) {
  return (
    <div className="stack">
      {list.map((field) => (
        <Control key={field.name} field={field} value={draft[field.name]} change={(value) => change(field.name, value)} wrong={wrong[field.name]} />
      ))}
    </div>
  );
}

function Control({ field, value, change, wrong }: { field: Field; value: string | boolean | undefined; change: (value: string | boolean) => void; wrong?: string }) {
  const id = useId();
  const { schema, label, required, control } = field;
  const text = typeof value === 'string' ? value : '';
  const common = { id, 'aria-invalid': wrong !== undefined, 'aria-describedby': `${id}-help`, 'aria-required': required };
  if (control === 'boolean') {
    return (
      <label className="choice" htmlFor={id}>
        <input {...common} type="checkbox" checked={value === true} onChange={(event) => change(event.target.checked)} /> {label}
        <Help id={id} text={schema.description} wrong={wrong} />
      </label>
    );
  }
  return (
    <div className="field">
      <label htmlFor={id}>
        {label}
        {!required && <span className="muted"> (optional)</span>}
      </label>
      {control === 'choice' ? (
        <select {...common} value={text} onChange={(event) => change(event.target.value)}>
          <option value="">{required ? 'Choose…' : 'none'}</option>
          {(schema.enum ?? []).map((one) => (
            <option key={print(one)} value={print(one)}>
              {typeof one === 'string' ? one : print(one)}
            </option>
          ))}
        </select>
      ) : control === 'long' || control === 'json' ? (
        <textarea {...common} rows={control === 'json' ? 4 : 3} className={control === 'json' ? 'mono' : undefined} value={text} onChange={(event) => change(event.target.value)} />
      ) : (
        <input
          {...common}
          type={control === 'date' ? 'date' : control === 'date-time' ? 'datetime-local' : 'text'}
          inputMode={control === 'integer' ? 'numeric' : control === 'number' ? 'decimal' : undefined}
          value={text}
          onChange={(event) => change(event.target.value)}
        />
      )}
      <Help id={id} text={schema.description} wrong={wrong} />
    </div>
  );
}

function Help({ id, text, wrong }: { id: string; text?: string; wrong?: string }) {
  return (
    <span id={`${id}-help`} className={wrong ? 'help bad' : 'help'}>
      {wrong ?? text}
    </span>
  );
}
