// The engine's API as the demo uses it, and the two complaints that come in.

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

  /** The events of one tree, as they are committed, until `signal` aborts. */
  async *events(rootId, signal) {
    const response = await fetch(`${this.url}/v1/events?rootId=${rootId}&after=`, { headers: this.#headers(), signal });
    if (!response.ok) throw new Error(`the event feed answers ${response.status}`);
    let text = '';
    for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
      const messages = (text + chunk).split('\n\n');
      text = messages.pop();
      for (const message of messages) {
        const data = message.split('\n').filter((line) => line.startsWith('data:'));
        if (data.length) yield JSON.parse(data.map((line) => line.slice(5)).join('\n'));
      }
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
