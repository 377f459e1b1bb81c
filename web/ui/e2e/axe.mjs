// Checks what a page shows with axe (WCAG 2.2 AA), in four widths and two themes. The theme changes
// nothing but colours, and the width hardly any colour. So the contrast of colours, which takes axe
// longest, is checked in the widest and the narrowest window in each theme, and all other rules in
// each width in one theme.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { loaded } from './controls.mjs';

const rules = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'];
const colours = 'color-contrast';
/** 320 px are 1280 px at 400 %. */
const widths = [1440, 1024, 800, 320];
const looks = [
  ...widths.map((width) => ({ theme: 'light', width, others: true, contrast: width === 1440 || width === 320 })),
  { theme: 'dark', width: 320, others: false, contrast: true },
  { theme: 'dark', width: 1440, others: false, contrast: true },
];

/**
 * Returns the check of a browser's page.
 * @param current returns the browser, which does not exist yet when the test is declared
 */
export const accessibility = (current) => {
  const source = readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

  /**
   * What axe finds. Only a measurement during which a colour or a size was on its way to another is
   * repeated: a finding on a page at rest is real, also if the page changes soon after.
   */
  const findings = async ({ others, contrast }) => {
    const { page } = current();
    for (let tries = 0; ; tries++) {
      const { found, isMoving } = await page.evaluate(async (choice) => {
        const frame = () => new Promise((painted) => requestAnimationFrame(painted));
        const moving = () =>
          document
            .getAnimations()
            .filter((one) => one.playState === 'running' && Number.isFinite(one.effect.getComputedTiming().endTime));
        await frame();
        await frame();
        await Promise.allSettled(moving().map(({ finished }) => finished));
        let started = false;
        const note = () => {
          started = true;
        };
        const starts = ['transitionrun', 'animationstart'];
        starts.forEach((name) => document.addEventListener(name, note));
        const { violations } = await window.axe.run(document, {
          ...choice,
          resultTypes: ['violations'],
          selectors: false,
        });
        await frame();
        starts.forEach((name) => document.removeEventListener(name, note));
        return {
          found: violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join('\n')}`),
          isMoving: started || moving().length > 0,
        };
      }, others ? { runOnly: rules, rules: { [colours]: { enabled: contrast } } } : { runOnly: [colours] });
      if (found.length === 0 || !isMoving || tries === 20) {
        return found;
      }
    }
  };

  /** Checks what `open` shows in all widths and themes. */
  const check = async (name, open) => {
    const { page, screenshot } = current();
    await open();
    await loaded(page);
    await page.evaluate(await source);
    for (const { theme, width, ...choice } of looks) {
      await page.emulateMedia({ colorScheme: theme });
      await page.setViewportSize({ width, height: 1000 });
      const found = await findings(choice);
      const spare = await page.evaluate(() => window.innerWidth - document.documentElement.scrollWidth);
      if (found.length > 0 || spare < 0) {
        await screenshot(`FAILED-${name.replaceAll(/[^a-z]+/gi, '-')}-${String(width)}-${theme}`);
      }
      assert.deepEqual(found, [], `${String(width)} px, ${theme}`);
      assert.ok(spare >= 0, `${String(width)} px: the page is wider than the window`);
    }
    await page.emulateMedia({ colorScheme: looks[0].theme });
  };

  return { check };
};
