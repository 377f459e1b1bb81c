// QR codes beside the addresses that a phone or another machine needs.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { accessibility } from './axe.mjs';
import { openBrowser } from './browser.mjs';
import { until } from './clusters.mjs';
import { controls } from './controls.mjs';
import { fileLimit, startSite } from './site.mjs';

describe('QR codes', { timeout: fileLimit }, () => {
  let site;
  let browser;
  let page;

  const { button } = controls(() => page);
  const { check } = accessibility(() => browser);

  before(async () => {
    site = await startSite({ hosts: 3, speed: 400 });
    browser = await openBrowser(site.url, 'qr');
    ({ page } = browser);
  });
  after(async () => {
    await browser?.close();
    await site?.end();
  });

  it('are at the addresses of an installed cluster, by keyboard', async () => {
    await page.goto(`${site.url}/assisted-installer/clusters`);
    await page.getByRole('link', { name: 'demo', exact: true }).click();
    await page.getByText('The cluster is installed.').waitFor({ timeout: 120_000 });
    const show = button('Show as a QR code: Address of the console');
    await show.focus();
    await page.keyboard.press('Enter');
    const code = page.getByTestId('qr-code');
    await code.getByRole('img', { name: /^QR code of https:\/\/console-openshift-console\.apps\.demo\./ }).waitFor();
    await browser.screenshot('the-console');
    await page.keyboard.press('Escape');
    await code.waitFor({ state: 'detached' });
    await until('the button has the focus again', () => show.evaluate((one) => one === document.activeElement));
    await check('code', async () => {
      await page.reload();
      await button('Show as a QR code: Address of the API').click();
      await code.waitFor();
    });
  });

  it('is at the address of the appliance', async () => {
    await page.goto(site.url);
    await page.getByTestId('status').click();
    await button('Show as a QR code: Address for hosts').click();
    await page.getByTestId('qr-code').getByText(/^https?:\/\//).waitFor();
    await browser.screenshot('the-appliance');
  });

  it('no requests to other origins, no errors', () => {
    assert.deepEqual([browser.foreign, browser.errors], [[], []]);
  });
});
