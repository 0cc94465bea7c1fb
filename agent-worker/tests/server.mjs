// A tool server for tests, as small as MCP allows: `node server.mjs` on stdio, `node server.mjs --http` prints its port.
import { createServer } from 'node:http';
import { createInterface } from 'node:readline';
import { appendFileSync } from 'node:fs';

const object = (properties, required = []) => ({ type: 'object', properties, required });
const schemas = {
  echo: object({ id: { type: 'string' } }, ['id']),
  slow: object({ ms: { type: 'number' } }),
  broken: object({}),
  rpc_error: object({}),
  big: object({ bytes: { type: 'number' } }),
  die: object({}),
  keys: object({}),
  structured: object({}),
};
const text = (value) => ({ content: [{ type: 'text', text: typeof value === 'string' ? value : JSON.stringify(value) }] });

async function call({ name, arguments: args = {}, _meta }, headers) {
  if (process.env.CALLS) appendFileSync(process.env.CALLS, `${name} ${JSON.stringify(args)}\n`);
  switch (name) {
    case 'echo': return text({ ...args, tier: 'gold' });
    case 'slow': await new Promise((done) => setTimeout(done, args.ms)); return text('at last');
    case 'broken': return { ...text('no such customer'), isError: true };
    case 'rpc_error': throw { code: -32602, message: 'wrong parameters' };
    case 'big': return text('x'.repeat(args.bytes));
    case 'die': process.exit(3);
    case 'keys': return text({ meta: _meta?.idempotencyKey, header: headers?.['idempotency-key'], bearer: headers?.authorization,
      secret: process.env.OPENAI_API_KEY, own: process.env.OWN });
    case 'structured': return { content: [], structuredContent: { ok: true } };
    default: throw { code: -32602, message: `unknown tool ${name}` };
  }
}

async function handle(message, headers) {
  const { method, params } = message;
  if (method === 'initialize') {
    return { protocolVersion: '2025-06-18', capabilities: { tools: {} }, serverInfo: { name: 'test', version: '1' } };
  }
  if (method === 'tools/list') {
    return { tools: Object.entries(schemas).map(([name, inputSchema]) => ({ name, description: `does ${name}`, inputSchema })) };
  }
  if (method === 'tools/call') return call(params, headers);
  if (method === 'ping') return {};
  throw { code: -32601, message: `no method ${method}` };
}

async function answer(line, headers) {
  const message = JSON.parse(line);
  if (message.id === undefined) return undefined;
  try {
    return JSON.stringify({ jsonrpc: '2.0', id: message.id, result: await handle(message, headers) });
  } catch (error) {
    return JSON.stringify({ jsonrpc: '2.0', id: message.id, error });
  }
}

if (process.argv.includes('--http')) {
  const server = createServer(async (request, response) => {
    if (request.method !== 'POST') return response.writeHead(405).end();
    let body = '';
    for await (const chunk of request) body += chunk;
    const said = await answer(body, request.headers);
    if (said === undefined) return response.writeHead(202).end();
    response.writeHead(200, { 'content-type': 'application/json' }).end(said);
  });
  server.listen(0, '127.0.0.1', () => console.log(server.address().port));
  process.stdin.on('end', () => process.exit(0)).resume();
} else {
  console.error('test server starts');
  if (process.argv.includes('--mute')) setInterval(() => {}, 1000);
  else createInterface({ input: process.stdin }).on('line', async (line) => {
    const said = await answer(line);
    if (said !== undefined) process.stdout.write(`${said}\n`);
  }).on('close', () => process.exit(0));
}
