// The wizard by keyboard alone, from the list of clusters to the start of the installation. Each
// press of a key must leave the focus on an element that a person can see.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { openBrowser } from './browser.mjs';
import { prepareClusters, until } from './clusters.mjs';
import { controls } from './controls.mjs';
import { fileLimit, startSite } from './site.mjs';
import { dependentSteps } from './steps.mjs';

const minute = 60_000;
const nothing = 'nothing has the focus';

describe('wizard by keyboard', { timeout: fileLimit }, () => {
  let site;
  let browser;
  let page;

  const step = dependentSteps(() => ({ site, browser }));
  const { button, heading, clusterId } = controls(() => page);

  /** What is wrong with the focus: it is nowhere, outside of the window, or below something. */
  const problem = () =>
    page.evaluate(() => {
      const focused = document.activeElement;
      if (!focused || focused === document.body) {
        return 'nothing has the focus';
      }
      const { top, bottom, left, right, width, height } = focused.getBoundingClientRect();
      if (width === 0 || height === 0) {
        return `${focused.outerHTML.slice(0, 200)} is not visible`;
      }
      if (bottom <= 0 || right <= 0 || top >= window.innerHeight || left >= window.innerWidth) {
        return `${focused.outerHTML.slice(0, 200)} is outside of the window`;
      }
      const x = Math.min(Math.max((left + right) / 2, 0), window.innerWidth - 1);
      const y = Math.min(Math.max((top + bottom) / 2, 0), window.innerHeight - 1);
      const shown = document.elementFromPoint(x, y);
      const related = shown && (focused.contains(shown) || shown.contains(focused) || shown.closest('label'));
      return related ? '' : `${focused.outerHTML.slice(0, 200)} is covered by ${shown?.outerHTML.slice(0, 200)}`;
    });

  const press = async (key) => {
    await page.keyboard.press(key);
    assert.equal(await problem(), '', `after ${key}`);
  };

  /**
   * Presses Tab until this element has the focus. After the last element of the page, the focus is
   * on the browser's own buttons, which a page does not see.
   */
  const tabTo = async (element) => {
    let ends = 0;
    for (let presses = 0; presses < 150; presses++) {
      if (await element.evaluate((one) => one === document.activeElement)) {
        return;
      }
      await page.keyboard.press('Tab');
      const wrong = await problem();
      ends += wrong === nothing ? 1 : 0;
      assert.ok(wrong === '' || (wrong === nothing && ends === 1), `after Tab: ${wrong}`);
    }
    assert.fail(`150 presses of Tab do not reach ${String(element)}`);
  };

  const type = async (field, text) => {
    await tabTo(field);
    await page.keyboard.press('Control+A');
    await page.keyboard.type(text);
  };

  /** Presses Enter on a button that is enabled. */
  const use = async (element) => {
    await element.and(page.locator(':enabled')).waitFor({ timeout: 2 * minute });
    await tabTo(element);
    await page.keyboard.press('Enter');
  };

  const isFocused = async (element) => {
    await element.waitFor();
    await until('the heading of the step has the focus', () =>
      element.evaluate((one) => one === document.activeElement));
    assert.equal(await problem(), '');
  };

  before(async () => {
    site = await startSite();
    browser = await openBrowser(site.url, 'keyboard');
    page = browser.page;
    await prepareClusters(site);
  });
  after(async () => {
    await browser?.close();
    await site?.end();
  });

  step('opens the wizard', async () => {
    await page.goto(`${site.url}/assisted-installer/clusters`);
    const create = page.getByRole('link', { name: 'Create cluster' });
    await create.waitFor();
    await tabTo(create);
    await page.keyboard.press('Enter');
    await page.getByRole('textbox', { name: 'Cluster name' }).waitFor();
    assert.equal(await problem(), '');
  });

  step('describes the cluster', async () => {
    await type(page.getByRole('textbox', { name: 'Cluster name' }), 'keys');
    await type(page.getByRole('textbox', { name: 'Base domain' }), 'site.test');
    await use(button('Next'));
    await heading('Operators').waitFor({ timeout: minute });
    assert.equal(await problem(), '');
  });

  step('goes to the hosts and makes their image', async () => {
    await use(button('Next'));
    await isFocused(heading('Host discovery'));
    await use(button('Add hosts'));
    await page.getByRole('dialog').waitFor();
    await use(button('Generate Discovery ISO'));
    await page.getByTestId('iso-sha256').waitFor({ timeout: minute });
    await use(page.getByTestId('close-iso-btn'));
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    assert.equal(await problem(), '');
  });

  step('reads the checks of a host', async () => {
    const [infraEnv] = await site.get(`/v2/infra-envs?cluster_id=${clusterId()}`);
    site.bootHosts(infraEnv.id, 3);
    await button('Ready')
      .nth(2)
      .waitFor({ timeout: 2 * minute });
    // A check that is repeated can change the state of a host for a moment.
    await use(page.getByRole('row', { name: /host-1/ }).getByRole('button', { name: /^(Ready|Insufficient|Pending)/ }));
    await page.getByRole('dialog').getByText('Hardware', { exact: true }).waitFor();
    await press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    assert.equal(await problem(), '');
  });

  step('goes through storage and networking', async () => {
    await use(button('Next'));
    await isFocused(heading('Storage'));
    await use(button('Next'));
    await isFocused(heading('Networking'));
    const { host_networks: networks } = await site.get(`/v2/clusters/${clusterId()}`);
    const [net] = networks[0].cidr.split(/\.\d+\//);
    await type(page.getByRole('textbox', { name: /API IP/ }), `${net}.200`);
    await type(page.getByRole('textbox', { name: /Ingress IP/ }), `${net}.201`);
    await press('Tab');
  });

  step('goes back and forth', async () => {
    await use(button('Back'));
    await isFocused(heading('Storage'));
    await use(button('Next'));
    await isFocused(heading('Networking'));
  });

  step('installs the cluster', async () => {
    await use(button('Next'));
    await isFocused(heading('Review and install'));
    await use(button('Install cluster'));
    await heading('Installation progress').waitFor({ timeout: minute });
    await until('an element has the focus', async () => (await problem()) === '');
  });

  it('no requests to other origins, no uncaught errors', () => {
    assert.deepEqual([browser.errors, browser.foreign], [[], []]);
  });
});
