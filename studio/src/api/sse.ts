// Server-sent events over fetch: EventSource cannot send a key.

export interface Message {
  id?: string;
  event?: string;
  data: string;
}

/** Cuts a stream of text into messages; keeps what is not complete for the next piece. */
export class Reader {
  private rest = '';

  push(piece: string): Message[] {
    const blocks = (this.rest + piece).replace(/\r\n?/g, '\n').split('\n\n');
    this.rest = blocks.pop() ?? '';
    return blocks.map(message).filter((one): one is Message => one !== null);
  }
}

function message(block: string): Message | null {
  let id: string | undefined;
  let event: string | undefined;
  const data: string[] = [];
  for (const line of block.split('\n')) {
    const colon = line.indexOf(':');
    if (colon <= 0) continue;
    const value = line.slice(colon + 1).replace(/^ /, '');
    const field = line.slice(0, colon);
    if (field === 'data') data.push(value);
    else if (field === 'id') id = value;
    else if (field === 'event') event = value;
  }
  return data.length > 0 ? { id, event, data: data.join('\n') } : null;
}
