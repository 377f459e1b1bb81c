// Sessions that end because nobody uses the page: another login, at the place where the person was.

import assert from 'node:assert/strict';
import { after, before, describe } from 'node:test';
import { account, logIn, password, setUp } from './accounts.mjs';
import { openBrowser } from './browser.mjs';
import { controls } from './controls.mjs';
import { fileLimit, startSite } from './site.mjs';
import { dependentSteps } from './steps.mjs';

const minute = 60_000;

describe('sessions that end without a use', { timeout: fileLimit }, () => {
  let site;
  let browser;
  let page;

  const step = dependentSteps(() => ({ site, browser }));

  const { button, heading } = controls(() => page);
  const path = () => page.evaluate(() => window.location.pathname + window.location.search);
  const dialog = () => page.getByRole('dialog', { name: 'Log in again' });

  before(async () => {
    site = await startSite({ accounts: true, serve: ['--sessions-idle', '15s'] });
    browser = await openBrowser(site.url, 'sessions');
    ({ page } = browser);
    await setUp(site, page, 'anna');
    await site.send('POST', '/api/landfall/v1/users', { name: 'oscar', password, role: 'operator' });
  });
  after(async () => {
    await browser?.close();
    await site?.end();
  });

  step('says that the session has ended', async () => {
    await page.goto(`${site.url}/access?tab=programs`);
    await page.getByRole('textbox', { name: 'Name of the new token' }).fill('backup');
    await dialog().getByText('Your session has ended.').waitFor({ timeout: minute });
    assert.equal(await page.locator('#name').inputValue(), 'anna');
  });

  step('continues at the same place after another login', async () => {
    await page.locator('#password').fill(password);
    await button('Log in').click();
    await dialog().waitFor({ state: 'detached' });
    assert.equal(await path(), '/access?tab=programs');
    assert.equal(await page.getByRole('textbox', { name: 'Name of the new token' }).inputValue(), 'backup');
    await button('Create a token').click();
    await page.getByTestId('new-token').waitFor();
  });

  step('returns to the same place after a reload without a session', async () => {
    await dialog().waitFor({ timeout: minute });
    await page.reload();
    await heading('Log in to Landfall').waitFor();
    assert.equal(await dialog().count(), 0);
    await logIn(page, 'anna');
    await account('anna', page).waitFor();
    assert.equal(await path(), '/access?tab=programs');
    await page.getByRole('row').filter({ hasText: 'backup' }).waitFor();
  });

  step('shows another person nothing of the place, also in another tab', async () => {
    const tab = await page.context().newPage();
    await tab.goto(`${site.url}/access?tab=programs`);
    await account('anna', tab).waitFor();
    await dialog().waitFor({ timeout: minute });
    await logIn(page, 'oscar');
    await account('oscar', page).waitFor();
    await account('oscar', tab).waitFor();
    await tab.close();
    await page.waitForURL((url) => url.pathname === '/');
    assert.equal(await page.getByText('backup').count(), 0);
  });

  step('no requests to other origins, no errors', () => {
    assert.deepEqual([browser.foreign, browser.errors], [[], []]);
  });
});
