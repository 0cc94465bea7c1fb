// A small CRM as a tool server: MCP 2025-06-18 over stdio, one JSON-RPC message a line, no package.
// Tickets are remembered by idempotency key in a file, so a call repeated after a crash opens no second one.
import { appendFileSync, existsSync, mkdirSync, readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { createInterface } from 'node:readline';

const VERSIONS = ['2025-06-18', '2025-03-26', '2024-11-05'];
const FILE = process.env.CRM_TICKETS ?? '.legation/tickets.jsonl';

const customers = {
  'C-1001': {
    id: 'C-1001',
    name: 'Alice Moreau',
    email: 'alice@example.com',
    orders: [{ orderId: '5531', item: 'Espresso grinder', amount: 89, currency: 'EUR', state: 'delivered' }],
  },
  'C-1002': {
    id: 'C-1002',
    name: 'Bruno Keller',
    email: 'bruno@example.com',
    orders: [{ orderId: '7702', item: 'Espresso machine', amount: 1200, currency: 'EUR', state: 'delivered' }],
  },
  'C-1003': { id: 'C-1003', name: 'Chiara Rossi', email: 'chiara@example.com', orders: [] },
};

const tools = {
  get_customer: {
    description: 'A customer with their orders',
    inputSchema: {
      type: 'object',
      properties: { customerId: { type: 'string', description: 'for example C-1001' } },
      required: ['customerId'],
      additionalProperties: false,
    },
    annotations: { readOnlyHint: true },
    call({ customerId }) {
      if (!Object.hasOwn(customers, customerId)) throw new ToolError(`there is no customer ${customerId}`);
      return customers[customerId];
    },
  },
  create_ticket: {
    description: 'Open a support ticket',
    inputSchema: {
      type: 'object',
      properties: {
        customerId: { type: 'string' },
        subject: { type: 'string', minLength: 1 },
        body: { type: 'string' },
      },
      required: ['customerId', 'subject'],
      additionalProperties: false,
    },
    annotations: { readOnlyHint: false, idempotentHint: true },
    call(ticket, key) {
      const known = tickets();
      const before = key && known.find((line) => line.key === key);
      if (before) return { ticketId: before.ticketId, repeated: true };
      const ticketId = `T-${known.length + 1}`;
      mkdirSync(dirname(FILE), { recursive: true });
      appendFileSync(FILE, `${JSON.stringify({ key, ticketId, ...ticket })}\n`);
      return { ticketId };
    },
  },
};

/** The tool ran and says no: the model reads this as the call's answer. */
class ToolError extends Error {}

/** The message itself is wrong: a JSON-RPC error with its code. */
class ProtocolError extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

const methods = {
  initialize: ({ protocolVersion }) => ({
    protocolVersion: VERSIONS.includes(protocolVersion) ? protocolVersion : VERSIONS[0],
    capabilities: { tools: { listChanged: false } },
    serverInfo: { name: 'crm', title: 'Example CRM', version: '1.0.0' },
  }),
  ping: () => ({}),
  'tools/list': () => ({
    tools: Object.entries(tools).map(([name, { description, inputSchema, annotations }]) => ({
      name,
      description,
      inputSchema,
      annotations,
    })),
  }),
  'tools/call': ({ name, arguments: args = {}, _meta }) => {
    if (!Object.hasOwn(tools, name)) throw new ProtocolError(-32602, `unknown tool: ${name}`);
    try {
      check(args, tools[name].inputSchema);
      const result = tools[name].call(args, _meta?.idempotencyKey);
      return { content: [{ type: 'text', text: JSON.stringify(result) }], structuredContent: result };
    } catch (error) {
      if (!(error instanceof ToolError)) throw error;
      return { content: [{ type: 'text', text: error.message }], isError: true };
    }
  },
};

function tickets() {
  if (!existsSync(FILE)) return [];
  return readFileSync(FILE, 'utf8').split('\n').filter(Boolean).map((line) => JSON.parse(line));
}

/** Checks arguments against the part of JSON Schema that the schemas above use. */
function check(args, schema) {
  if (typeof args !== 'object' || args === null || Array.isArray(args)) throw new ToolError('arguments must be an object');
  for (const name of schema.required) {
    if (!Object.hasOwn(args, name)) throw new ToolError(`${name} is required`);
  }
  for (const [name, value] of Object.entries(args)) {
    const property = Object.hasOwn(schema.properties, name) ? schema.properties[name] : undefined;
    if (!property) throw new ToolError(`${name} is not an argument of this tool`);
    if (typeof value !== property.type) throw new ToolError(`${name} must be a ${property.type}`);
    if (property.minLength && value.length < property.minLength) throw new ToolError(`${name} must not be empty`);
  }
}

function answer(message) {
  const { id, method, params = {} } = message ?? {};
  if (message?.jsonrpc !== '2.0' || (method === undefined && id === undefined)) {
    return { jsonrpc: '2.0', id: null, error: { code: -32600, message: 'not a JSON-RPC 2.0 message' } };
  }
  const isNotification = id === undefined;
  const isResponse = method === undefined;
  if (isNotification || isResponse) return undefined;
  try {
    if (!Object.hasOwn(methods, method)) throw new ProtocolError(-32601, `unknown method: ${method}`);
    return { jsonrpc: '2.0', id, result: methods[method](params) };
  } catch (error) {
    return { jsonrpc: '2.0', id, error: { code: error.code ?? -32603, message: error.message } };
  }
}

function receive(line) {
  try {
    return answer(JSON.parse(line));
  } catch {
    return { jsonrpc: '2.0', id: null, error: { code: -32700, message: 'not JSON' } };
  }
}

// The client closes stdin to end the server; readline then lets the process exit.
for await (const line of createInterface({ input: process.stdin })) {
  if (!line.trim()) continue;
  const reply = receive(line);
  if (reply) process.stdout.write(`${JSON.stringify(reply)}\n`);
}
