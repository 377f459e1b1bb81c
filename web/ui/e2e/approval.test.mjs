// Approval of hosts that manifests of the Kubernetes API install.

import assert from 'node:assert/strict';
import { after, before, describe } from 'node:test';
import { setUp } from './accounts.mjs';
import { openBrowser } from './browser.mjs';
import { startSite } from './site.mjs';
import { dependentSteps } from './steps.mjs';

const minute = 60_000;

describe('approval of hosts', { timeout: 3 * minute }, () => {
  let site;
  let browser;
  let page;
  const step = dependentSteps(() => ({ browser, site }));
  const row = (name) => page.locator(`[data-testid="host"][data-name="${name}"]`);
  const approve = () => page.getByRole('button', { name: 'Approve', exact: true });

  before(async () => {
    site = await startSite({ accounts: true, serve: ['--kubernetes-enabled=true'] });
    browser = await openBrowser(site.url, 'approval');
    ({ page } = browser);
    await setUp(site, page, 'anna');
    const [version] = Object.keys(await site.get('/v2/openshift-versions'));
    const { id } = await site.post('/v2/infra-envs', {
      name: 'east',
      pull_secret: '{"auths":{"example.com":{"auth":"YTpi"}}}',
      openshift_version: version,
    });
    site.bootHosts(id, 2);
  });
  after(async () => {
    await browser?.close();
    await site?.end();
  });

  step('approves several hosts', async () => {
    await page.goto(`${site.url}/hosts`);
    for (const name of ['host-1', 'host-2']) {
      await row(name).getByText('Not approved').waitFor({ timeout: minute });
    }
    await page.getByRole('checkbox', { name: 'Select all hosts of this page' }).check();
    await approve().click();
    const dialog = page.getByRole('dialog');
    assert.deepEqual(await dialog.getByTestId('host-names').locator('li').allInnerTexts(), ['host-1', 'host-2']);
    await dialog.getByRole('button', { name: 'Approve', exact: true }).click();
    await page.getByTestId('host-outcome').getByText('Approved 2 hosts.').waitFor();
  });

  step('offers no approval of approved hosts', async () => {
    for (const name of ['host-1', 'host-2']) {
      await row(name).getByText('Not approved').waitFor({ state: 'detached' });
    }
    assert.equal(await approve().count(), 0);
    const { hosts } = await (await site.send('GET', '/api/landfall/v1/hosts')).json();
    assert.deepEqual(hosts.map(({ approved }) => approved), [true, true]);
  });
});
