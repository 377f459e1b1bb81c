// An appliance that was configured with nothing, as it is on the first day: each page says what is missing.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { openBrowser } from './browser.mjs';
import { startSite } from './site.mjs';
import { startWalk } from './walk.mjs';

describe('a person on the first day', { timeout: 60_000 }, () => {
  let site;
  let browser;
  let page;

  const step = startWalk(() => ({ site, browser }));

  before(async () => {
    site = await startSite({ serve: [] });
    browser = await openBrowser(site.url, 'bare');
    page = browser.page;
  });
  after(async () => {
    await browser?.close();
    await site?.end();
  });

  step('is told in the wizard that there is no release', async () => {
    await page.goto(site.url);
    await page.getByRole('button', { name: 'Create New Cluster' }).or(page.getByRole('link', { name: 'Create New Cluster' })).click();
    await page.getByText(/This appliance has no release to install/).waitFor();
    await page.getByRole('button', { name: 'Look again' }).waitFor();
  });

  step('is told by the doctor, too', async () => {
    await page.getByRole('link', { name: 'Doctor', exact: true }).click();
    await page.getByRole('row', { name: /Red.*releases.*none, so no cluster can be made/ }).waitFor();
  });

  step('reads that there are no mirror rules and no release to ask for', async () => {
    await page.getByRole('link', { name: 'Mirror', exact: true }).click();
    await page.getByText('There are none: each image is pulled from where its name says.').waitFor();
    await page.getByText(/This appliance has no release to ask for/).waitFor();
  });

  step('reads that nobody has logged in to OpenShift Cluster Manager', async () => {
    await page.getByRole('link', { name: 'OCM', exact: true }).click();
    await page.getByTestId('ams-state').getByText('Not logged in').waitFor();
  });

  it('met no error that was not handled, and never asked another origin for anything', () => {
    assert.deepEqual([browser.errors, browser.foreign], [[], []]);
  });
});
