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
