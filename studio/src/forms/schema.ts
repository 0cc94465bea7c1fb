// Forms out of JSON Schema: which control a field gets, and what its text becomes.
import { Exact } from '../api/types';
import { parse, print } from '../api/json';

export interface Schema {
  type?: string | string[];
  title?: string;
  description?: string;
  enum?: unknown[];
  default?: unknown;
  format?: string;
  properties?: Record<string, Schema>;
  required?: string[];
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
  multipleOf?: number;
  contentMediaType?: string;
}

export type Control = 'text' | 'long' | 'number' | 'integer' | 'boolean' | 'choice' | 'date' | 'date-time' | 'json';

export interface Field {
  name: string;
  label: string;
  schema: Schema;
  control: Control;
  required: boolean;
}

/** What is typed, by field: text, or for check boxes whether they are set. */
export type Draft = Record<string, string | boolean | undefined>;

export function fields(schema: Schema | null | undefined): Field[] {
  const list = Object.entries(schema?.properties ?? {}).map(([name, property]) => ({
    name,
    label: property.title ?? name,
    schema: property,
    control: control(property),
    required: schema?.required?.includes(name) ?? false,
  }));
  // The engine answers properties by name, so the document's order is lost; what is needed comes first.
  return list.sort((a, b) => Number(b.required) - Number(a.required));
}

function control(schema: Schema): Control {
  const type = Array.isArray(schema.type) ? schema.type.find((one) => one !== 'null') : schema.type;
  if (schema.enum) return 'choice';
  if (type === 'boolean') return 'boolean';
  if (type === 'integer') return 'integer';
  if (type === 'number') return 'number';
  if (type !== 'string') return 'json';
  if (schema.format === 'date') return 'date';
  if (schema.format === 'date-time') return 'date-time';
  return (schema.maxLength ?? 0) > 200 ? 'long' : 'text';
}

export function begin(list: Field[]): Draft {
  const draft: Draft = {};
  for (const { name, schema, control } of list) {
    if (control === 'boolean') draft[name] = schema.default === true;
    else if (schema.default !== undefined && schema.default !== null) draft[name] = control === 'json' || control === 'choice' ? print(schema.default) : String(schema.default);
  }
  return draft;
}

/** The values to send, and what is wrong with fields, by name. The engine checks everything again. */
export function read(list: Field[], draft: Draft): { values: Record<string, unknown>; wrong: Record<string, string> } {
  const values: Record<string, unknown> = {};
  const wrong: Record<string, string> = {};
  for (const field of list) {
    const typed = draft[field.name];
    if (field.control === 'boolean') {
      values[field.name] = typed === true;
      continue;
    }
    const text = typeof typed === 'string' ? typed : '';
    if (text.trim() === '') {
      // An empty text is a value where one is asked for and allowed; otherwise the field is left out.
      if (field.required && field.control === 'text' && typed !== undefined && (field.schema.minLength ?? 1) === 0) values[field.name] = '';
      else if (field.required) wrong[field.name] = 'is needed';
      continue;
    }
    const problem = take(field, text, values);
    if (problem) wrong[field.name] = problem;
  }
  return { values, wrong };
}

function take(field: Field, text: string, values: Record<string, unknown>): string | null {
  const { name, schema, control } = field;
  switch (control) {
    case 'number':
    case 'integer': {
      const trimmed = text.trim();
      if (!/^-?\d+(\.\d+)?$/.test(trimmed)) return 'is a number, such as 12.50';
      if (control === 'integer' && trimmed.includes('.')) return 'is a whole number';
      const number = Number(trimmed);
      if (schema.minimum !== undefined && number < schema.minimum) return `is at least ${schema.minimum}`;
      if (schema.maximum !== undefined && number > schema.maximum) return `is at most ${schema.maximum}`;
      // Digits that a double would lose are kept.
      values[name] = parse(normal(trimmed)) as number | Exact;
      return null;
    }
    case 'date-time': {
      const at = new Date(text);
      if (Number.isNaN(at.getTime())) return 'is a date with a time';
      values[name] = at.toISOString();
      return null;
    }
    case 'choice':
    case 'json':
      try {
        values[name] = parse(text);
        return null;
      } catch {
        return 'is JSON, such as {"a": 1} or ["a"]';
      }
    default:
      if (schema.minLength !== undefined && text.length < schema.minLength) return `has at least ${schema.minLength} characters`;
      if (schema.maxLength !== undefined && text.length > schema.maxLength) return `has at most ${schema.maxLength} characters`;
      if (schema.pattern !== undefined && !matches(schema.pattern, text)) return `has the form ${schema.pattern}`;
      values[name] = text;
      return null;
  }
}

/** JSON knows no `007`. */
function normal(number: string): string {
  return number.replace(/^(-?)0+(?=\d)/, '$1');
}

function matches(pattern: string, text: string): boolean {
  try {
    return new RegExp(pattern, 'u').test(text);
  } catch {
    return true;
  }
}
