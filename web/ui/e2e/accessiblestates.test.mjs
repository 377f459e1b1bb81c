// Rules of accessibility, checked by axe, in states that other sites than the demo's have: the
// login, and hosted clusters.

import { after, before, describe, it } from 'node:test';
import { setUp } from './accounts.mjs';
import { accessibility } from './axe.mjs';
import { openBrowser } from './browser.mjs';
import { controls } from './controls.mjs';
import { fileLimit, startSite } from './site.mjs';

describe('accessible states', { timeout: fileLimit }, () => {
  let site;
  let browser;
  let page;

  const { button, heading } = controls(() => page);
  const { check } = accessibility(() => browser);

  before(async () => {
    site = await startSite({ accounts: true, serve: ['--hosted-enabled=true', '--kubernetes-enabled=true'] });
    browser = await openBrowser(site.url, 'states');
    page = browser.page;
  });
  after(async () => {
    await browser?.close();
    await site?.end();
  });

  it('the first account: no finding in any width and theme', () =>
    check('first-account', async () => {
      await page.goto(site.url);
      await page.locator('#code').waitFor();
    }));

  it('the hosted clusters: no finding in any width and theme', async () => {
    await setUp(site, page, 'anna');
    await check('hosted', async () => {
      await page.goto(`${site.url}/hosted`);
      await heading('Hosted clusters').waitFor();
      await button('Create a hosted cluster').waitFor();
    });
  });

  it('a new hosted cluster: no finding in any width and theme', () =>
    check('hosted-create', async () => {
      await page.goto(`${site.url}/hosted`);
      await button('Create a hosted cluster').click();
      await page.getByRole('dialog').getByRole('textbox').first().waitFor();
    }));

  it('a new management cluster: no finding in any width and theme', () =>
    check('hosted-management', async () => {
      await page.goto(`${site.url}/hosted`);
      await button('Use a cluster for control planes').click();
      await page.getByRole('dialog').getByRole('textbox').first().waitFor();
    }));

  it('the accounts: no finding in any width and theme', () =>
    check('accounts', async () => {
      await page.goto(`${site.url}/access`);
      await heading('Accounts').waitFor();
    }));

  it('the login: no finding in any width and theme', async () => {
    await page.context().clearCookies();
    await check('login', async () => {
      await page.goto(site.url);
      await button('Log in').waitFor();
    });
  });
});
