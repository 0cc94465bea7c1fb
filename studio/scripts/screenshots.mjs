// `npm run screenshots`: every screen, light, dark and narrow, into studio/screenshots (or OUT). ONLY=part,part limits it.
import { mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { cases, launch, world } from './browser.mjs';

const out = process.env.OUT ?? join(dirname(fileURLToPath(import.meta.url)), '..', 'screenshots');
const only = process.env.ONLY?.split(',');
mkdirSync(out, { recursive: true });

const engine = await world();
const browser = await launch();
let wrong = 0;
try {
  const { asks, small, turnedDown, broken, form, both } = await cases(engine);
  const task = async (id) => (await engine.call('approver', 'GET', `/v1/tasks?instanceId=${id}`)).tasks[0].id;
  const incidents = async (state) => (await engine.call('dev', 'GET', `/v1/incidents?state=${state}`)).incidents;
  const once = (await incidents('OPEN')).find((one) => one.instanceId === broken.id);
  await engine.call('dev', 'POST', `/v1/incidents/${once.id}/retry`);
  const resolved = (await incidents('RESOLVED')).find((one) => one.id === once.id);
  const held = (await incidents('OPEN'))[0];
  const screens = [
    ['instances', '/instances', '.list-row .row-link'],
    ['instance-waiting', `/instances/${asks.id}`, '.djs-shape'],
    ['instance-journal', `/instances/${turnedDown.id}?tab=journal`, '.step'],
    ['instance-timeline', `/instances/${small.id}?tab=timeline`, '.lane'],
    ['instance-variables', `/instances/${small.id}?tab=variables`, 'table'],
    ['instance-lineage', `/instances/${small.id}?tab=lineage`, '.tree'],
    ['instance-events', `/instances/${small.id}?tab=history`, 'table'],
    ['instance-incident', `/instances/${broken.id}`, '.incident'],
    ['instance-branches', `/instances/${both.id}?tab=timeline`, '.mark'],
    ['inbox', '/inbox', '.task-item', 'approver'],
    ['inbox-approval', `/inbox?task=${await task(asks.id)}`, '.decide', 'approver'],
    ['inbox-form', `/inbox?task=${await task(form.id)}`, '.decide', 'approver'],
    ['inbox-several', '/inbox?several', '.bulk', 'approver'],
    ['inbox-nothing', '/inbox', '.state', 'dev'],
    ['processes', '/processes', '.cards'],
    ['process', '/processes/contract_review', '.mark.figure'],
    ['process-warm', '/processes/complaint', '.mark.figure'],
    ['process-onboarding', '/processes/onboarding', '.djs-shape'],
    ['process-source', '/processes/complaint?tab=source', '.editor'],
    ['process-start', '/processes/complaint?tab=start', 'form'],
    ['workers', '/workers', 'table'],
    ['incidents', '/incidents', '.list-row .row-link'],
    ['incidents-one', `/incidents?incident=${held.id}`, '.chosen-incident .incident'],
    ['incidents-resolved', `/incidents?state=RESOLVED&incident=${resolved.id}`, '.chosen-incident .incident.past'],
    ['settings', '/settings', '.card'],
    ['nothing-fits', '/instances?businessKey=nothing', '.state'],
    ['not-found', '/instances/none', '.state'],
    ['loading', '/instances?businessKey=slow', '.loading'],
    ['unreachable', '/instances?businessKey=gone', '.state'],
    ['no-permission', '/instances', '.state', 'worker'],
  ];
  for (const [look, colorScheme, width, height] of [['light', 'light', 1280, 860], ['dark', 'dark', 1280, 860], ['narrow', 'light', 390, 780]]) {
    const context = await browser.newContext({ viewport: { width, height }, colorScheme });
    const page = await context.newPage();
    const complain = (text) => {
      wrong += 1;
      console.log(`   ! ${look} ${text}`);
    };
    // A refusal that is to be seen is told by the browser too.
    let mayFail = false;
    page.on('console', (message) => ['error', 'warning'].includes(message.type()) && !(mayFail && /Failed to load resource/.test(message.text())) && complain(message.text()));
    page.on('pageerror', (error) => complain(error.stack));
    if (!only || only.some((one) => 'login'.includes(one))) {
      await page.goto(engine.url);
      await page.waitForSelector('form');
      await page.screenshot({ path: join(out, `login-${look}.png`) });
    }
    // Another hash alone would load nothing.
    await page.goto('about:blank');
    await page.goto(`${engine.url}/#login=${engine.code}`);
    await page.waitForSelector('.who select');
    for (const [name, path, ready, as = 'dev'] of screens) {
      if (only && !only.some((one) => name.includes(one))) continue;
      mayFail = ['not-found', 'unreachable', 'no-permission'].includes(name);
      if (as === 'worker') {
        // The last of them: the session is over with it.
        await page.evaluate((secret) => sessionStorage.setItem('legation.session', JSON.stringify({ keys: { worker: secret }, current: 'worker' })), engine.key('worker'));
        await page.reload();
        await page.waitForSelector('.who .principal');
      } else if ((await page.inputValue('.who select')) !== as) await page.selectOption('.who select', as);
      const isGone = name === 'unreachable';
      const isSlow = name === 'loading';
      if (isGone) await page.route('**/v1/**', (route) => route.abort());
      if (isSlow) await page.route('**/v1/instances?*', () => undefined);
      await page.evaluate((to) => { history.pushState(null, '', to); window.dispatchEvent(new PopStateEvent('popstate')); }, path);
      if (path.endsWith('several')) {
        await page.getByLabel(/choose all approvals/).check();
        if (look === 'narrow') await page.getByRole('button', { name: 'Decide…' }).click();
        await page.getByRole('button', { name: 'Approve all…' }).click();
      }
      await page.waitForSelector(`main ${ready}`, { timeout: 8_000 }).catch(() => complain(`${path}: ${ready} does not come`));
      if (!isSlow) await page.waitForFunction(() => !document.querySelector('.loading'), null, { timeout: 5_000 }).catch(() => complain(`${path}: still loading`));
      await page.waitForTimeout(350);
      await page.screenshot({ path: join(out, `${name}-${look}.png`), fullPage: look === 'narrow' });
      if (isGone) await page.unroute('**/v1/**');
      if (isSlow) await page.unroute('**/v1/instances?*');
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      if (wide > 0) complain(`${path}: ${wide} px wider than the screen`);
    }
    await context.close();
  }
} finally {
  await browser.close();
  await engine.end();
}
console.log(`screenshots: ${out}${wrong > 0 ? `, ${wrong} complaints` : ''}`);
process.exit(wrong > 0 ? 1 : 0);
