/** Calls `take` with every line of a stream, the last one too when nothing ends it. */
export function eachLine(stream, take) {
  let text = '';
  stream.setEncoding('utf8');
  stream.on('data', (chunk) => {
    const lines = (text + chunk).split('\n');
    text = lines.pop();
    for (const line of lines) take(line);
  });
  stream.on('end', () => text && take(text));
}
