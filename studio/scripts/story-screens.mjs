// A part of the browser story: what must hold on every screen, light, dark and narrow.

/** Whether axe has nothing to say, all that can be clicked can be reached by keyboard, and every date has its full form. */
export async function everyScreen({ page, engine, go, as, complaints, axe, screens }) {
  for (const [look, colorScheme, width, height] of [['light', 'light', 1280, 860], ['dark', 'dark', 1280, 860], ['narrow', 'light', 390, 780], ['narrow dark', 'dark', 390, 780]]) {
    await page.setViewportSize({ width, height });
    await page.emulateMedia({ colorScheme });
    for (const [path, who = 'dev', part] of screens) {
      await as(who);
      await go(path);
      await page.waitForTimeout(150);
      await page.waitForFunction(() => !document.querySelector('.loading, [aria-label="Loading the diagram"]'));
      if (part === 'several') {
        await page.getByLabel(/choose all approvals/).check();
        if (width < 760) await page.getByRole('button', { name: 'Decide…' }).click();
        await page.getByRole('button', { name: 'Reject all…' }).click();
      }
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() => window.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice'] }));
      for (const one of violations) complaints.push(`axe ${look} ${path}: ${one.id}, ${one.nodes.slice(0, 3).map((node) => node.html.slice(0, 140)).join(' | ')}`);
      for (const one of await page.evaluate(unreachable)) complaints.push(`${look} ${path}: no key reaches ${one}`);
      for (const one of await page.evaluate(undated)) complaints.push(`${look} ${path}: no full date at ${one}`);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      if (wide > 0) complaints.push(`${look} ${path}: ${wide} px wider than the screen`);
    }
  }
  await page.setViewportSize({ width: 1280, height: 860 });
  await page.emulateMedia({ colorScheme: 'light' });
}

/** What shows the hand and cannot be focused. The nodes of a diagram stand in the lists beside it too. */
function unreachable() {
  const focusable = 'a[href], button, input, select, textarea, summary, label, option, [tabindex]:not([tabindex="-1"]), [role="tab"]';
  return [...document.querySelectorAll('body *')]
    .filter((one) => getComputedStyle(one).cursor === 'pointer' && !one.closest('.djs-container') && !one.closest(focusable))
    .map((one) => one.outerHTML.slice(0, 120));
}

function undated() {
  return [...document.querySelectorAll('time')].filter((one) => !one.dateTime || !/\d{4}/.test(one.title)).map((one) => one.outerHTML.slice(0, 120));
}

/** The same for what is seen when there is nothing to see: no session, no permission, no such instance, no engine. */
export async function everyState({ browser, engine, complaints, axe }) {
  for (const [colorScheme, width] of [['light', 1280], ['dark', 1280], ['light', 390], ['dark', 390]]) {
    const page = await (await browser.newContext({ colorScheme, viewport: { width, height: 800 } })).newPage();
    const look = async (what) => {
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() => window.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice'] }));
      for (const one of violations) complaints.push(`axe ${colorScheme} ${width} ${what}: ${one.id}, ${one.nodes.slice(0, 3).map((node) => node.html.slice(0, 140)).join(' | ')}`);
    };
    await page.goto(engine.url);
    await page.getByLabel('API key').waitFor();
    await look('login');
    const be = async (name) => {
      await page.evaluate(([who, secret]) => sessionStorage.setItem('legation.session', JSON.stringify({ keys: { [who]: secret }, current: who })), [name, engine.key(name)]);
      await page.reload();
    };
    await be('worker');
    for (const path of ['/instances', '/incidents', '/processes', '/workers', '/inbox', '/settings']) {
      await page.goto(engine.url + path);
        await page.locator('main h1').first().waitFor({ timeout: 4_000 }).catch(() => complaints.push(`${path} has no heading without permission`));
      await page.waitForFunction(() => !document.querySelector('.loading'));
      await look(`${path} without permission`);
    }
    await be('dev');
    await page.goto(`${engine.url}/instances/none`);
    await page.locator('main .state').waitFor();
    await look('an instance that is not there');
    await page.goto(`${engine.url}/nothing`);
    await page.getByText('There is no such page').waitFor();
    await look('a page that is not there');
    await page.route('**/v1/**', (route) => route.abort());
    await page.goto(`${engine.url}/instances`);
    await page.locator('main .state').waitFor();
    await page.getByText('The engine cannot be reached').first().waitFor();
    await look('without an engine');
    await page.context().close();
  }
}
