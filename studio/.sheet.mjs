import { writeFileSync } from 'node:fs';
import { launch } from './scripts/browser.mjs';
const dir = '/tmp/s-shots';
const sheets = JSON.parse(process.argv[2]);
const b = await launch();
for (const [name, width, files] of sheets) {
  const p = await (await b.newContext({ viewport: { width: 1800, height: 600 } })).newPage();
  writeFileSync(`${dir}/sheet.html`, `<body style="margin:0;background:#888;display:flex;flex-wrap:wrap;gap:8px;align-items:flex-start">${files.map((f) => `<div style="color:#fff;font:12px sans-serif">${f}<br><img src="${f}.png" style="width:${width}px"></div>`).join('')}</body>`);
  await p.goto(`file://${dir}/sheet.html`);
  await p.waitForTimeout(300);
  await p.screenshot({ path: `${dir}/sheets/${name}.png`, fullPage: true });
  await p.close();
}
await b.close();
