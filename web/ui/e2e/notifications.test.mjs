// Notifications of the browser and webhooks: an installation of the demo is reported to both.

import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { after, before, describe, it } from 'node:test';
import { openBrowser } from './browser.mjs';
import { controls } from './controls.mjs';
import { fileLimit, startSite } from './site.mjs';
import { dependentSteps } from './steps.mjs';

const secret = 'a secret of the receiver';

describe('notifications', { timeout: fileLimit }, () => {
  let site;
  let browser;
  let page;
  let receiver;
  let address;
  const received = [];
  let lists = 0; // requests of the list of webhooks
  const { button, heading } = controls(() => page);
  const step = dependentSteps(() => ({ site, browser }));

  before(async () => {
    receiver = createServer((request, response) => {
      const chunks = [];
      request.on('data', (chunk) => chunks.push(chunk));
      request.on('end', () => {
        received.push({ headers: request.headers, body: Buffer.concat(chunks).toString() });
        // The first notification is not taken, so that it comes again.
        response.writeHead(received.length === 2 ? 503 : 204).end();
      });
    });
    receiver.listen(0, '127.0.0.1');
    await once(receiver, 'listening');
    address = `http://127.0.0.1:${String(receiver.address().port)}/hooks/hidden`;
    site = await startSite({ hosts: 3, speed: 60 });
    browser = await openBrowser(site.url, 'notifications');
    page = browser.page;
    page.on('request', (request) => {
      lists += request.method() === 'GET' && request.url().endsWith('/settings/webhooks') ? 1 : 0;
    });
    // A headless browser shows no notifications: the page's own constructor records them.
    await page.addInitScript(() => {
      window.shown = [];
      const real = window.Notification;
      window.Notification = class {
        static get permission() {
          return real.permission === 'granted' ? 'granted' : 'default';
        }
        static requestPermission() {
          return real.requestPermission();
        }
        constructor(title, options) {
          window.shown.push({ title, ...options });
          window.newest = this;
        }
        close() {}
      };
    });
  });
  after(async () => {
    await browser?.close();
    await site?.end();
    receiver?.close();
  });

  step('stay off without the permission', async () => {
    await page.goto(`${site.url}/settings#notifications`);
    await heading('Notifications').waitFor();
    const toggle = page.getByRole('switch', { name: /^Show notifications in this browser/ });
    await toggle.click({ force: true });
    assert.notEqual(await page.evaluate(() => window.Notification.requestPermission()), 'granted');
    assert.equal(await toggle.isChecked(), false);
  });

  step('are switched on with the permission', async () => {
    await page.context().grantPermissions(['notifications'], { origin: site.url });
    const toggle = page.getByRole('switch', { name: /^Show notifications in this browser/ });
    await toggle.click({ force: true });
    await page.waitForFunction(() => localStorage.getItem('landfall.notifications') === 'on');
    await page.getByRole('switch', { name: /^Show notifications in this browser/, checked: true }).waitFor();
  });

  step('adds a webhook and tests it', async () => {
    await button('Add a webhook').click();
    await page.getByRole('textbox', { name: 'Name' }).fill('chat');
    await page.getByRole('textbox', { name: 'Address' }).fill(address);
    await page.getByLabel('Secret', { exact: true }).fill(secret);
    await button('Add').click();
    const row = page.getByTestId('webhook');
    await row.getByText('No delivery yet').waitFor();
    assert.doesNotMatch(await row.innerText(), /hidden/);
    await button('Test the webhook chat').click();
    await page.getByText('The webhook chat took the test notification.').waitFor();
    assert.equal(JSON.parse(received[0].body).kind, 'test');
    await browser.screenshot('settings');
  });

  step('reports the installation to the browser', async () => {
    await page.waitForFunction(() => window.shown.some(({ title }) => title === 'Installed: demo'), undefined, {
      timeout: 120_000,
    });
    const shown = await page.evaluate(() => window.shown.find(({ title }) => title === 'Installed: demo'));
    assert.equal(shown.body, 'Cluster demo is installed.');
    assert.match(shown.tag, /^[0-9a-f]{16}-[0-9a-f]{4}$/);
    await page.evaluate(() => window.newest.onclick());
    await page.waitForURL(/\/assisted-installer\/clusters\/[-0-9a-f]+$/);
  });

  step('reports the installation to the webhook again until it is taken', async () => {
    while (received.length < 3) {
      await page.waitForTimeout(200);
    }
    const [first, second] = received.slice(1);
    assert.equal(first.headers['webhook-id'], second.headers['webhook-id']);
    assert.equal(first.body, second.body);
    assert.equal(JSON.parse(second.body).message, 'Cluster demo is installed.');
    const signed = `${second.headers['webhook-id']}.${second.headers['webhook-timestamp']}.${second.body}`;
    assert.equal(
      second.headers['webhook-signature'],
      `v1,${createHmac('sha256', secret).update(signed).digest('base64')}`,
    );
    await page.goto(`${site.url}/settings`);
    await page.getByTestId('webhook').getByText('Last delivery').waitFor();
  });

  step('removes the webhook', async () => {
    await button('Remove the webhook chat').click();
    await button('Remove').click();
    await page.getByText('No webhook yet.').waitFor();
    assert.ok(lists < 30, `${String(lists)} requests of the list`);
  });

  it('no requests to other origins, no uncaught errors', () => {
    assert.deepEqual([browser.errors, browser.foreign], [[], []]);
  });
});
