// The engine's API as the demo uses it, and the two complaints that come in.
import { setTimeout as sleep } from 'node:timers/promises';

export const stories = {
  small: {
    title: 'First story: a small refund',
    delegate: 'refund_payout',
    variables: {
      customerId: 'C-1001',
      orderId: '5531',
      amount: 89,
      message: 'The grinder arrived broken. I would like my money back.',
    },
  },
  large: {
    title: 'Second story: a large refund waits for finance',
    delegate: 'large_payout',
    variables: {
      customerId: 'C-1002',
      orderId: '7702',
      amount: 1200,
      message: 'The espresso machine leaks and nobody can repair it. Please refund me.',
    },
  },
};

export class Client {
  constructor(url, key) {
    this.url = url;
    this.key = key;
  }

  get(path) {
    return this.#call('GET', path);
  }

  post(path, body) {
    return this.#call('POST', path, body);
  }

  /** Undefined while nobody listens yet. */
  async health() {
    try {
      return await (await fetch(`${this.url}/health`)).json();
    } catch {
      return undefined;
    }
  }

  /** The project's events from now on, as they are committed. A broken connection goes on where it was. */
  async *events() {
    let last;
    while (true) {
      try {
        for await (const message of this.#messages(last)) {
          last = message.id ?? last;
          if (message.data) yield JSON.parse(message.data);
        }
      } catch (error) {
        if (error.refused) throw error;
      }
      await sleep(200);
    }
  }

  async *#messages(last) {
    const headers = { ...this.#headers(), ...(last && { 'last-event-id': last }) };
    const response = await fetch(`${this.url}/v1/events`, { headers });
    if (!response.ok) throw Object.assign(new Error(`the event feed answers ${response.status}`), { refused: true });
    let text = '';
    for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
      const messages = (text + chunk).split('\n\n');
      text = messages.pop();
      for (const message of messages) yield parse(message);
    }
  }

  async #call(method, path, body) {
    const response = await fetch(this.url + path, { method, headers: this.#headers(), body: body && JSON.stringify(body) });
    const answer = await response.json();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${answer.code}: ${answer.detail ?? answer.title}`);
    return answer;
  }

  #headers() {
    return { authorization: `Bearer ${this.key}`, 'content-type': 'application/json' };
  }
}

/** One server-sent message: its fields by name, several `data` lines as one. */
function parse(message) {
  const fields = {};
  for (const line of message.split('\n')) {
    const [, name, value] = /^(\w+): ?(.*)$/.exec(line) ?? [];
    if (name) fields[name] = fields[name] === undefined ? value : `${fields[name]}\n${value}`;
  }
  return fields;
}
