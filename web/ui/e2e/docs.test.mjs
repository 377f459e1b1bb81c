// The documents on the page: topics, a search, links to headings, and links from other pages.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { openBrowser } from './browser.mjs';
import { controls } from './controls.mjs';
import { fileLimit, startSite } from './site.mjs';

const searchField = 'Search the documentation';

describe('the documents', { timeout: fileLimit }, () => {
  let site;
  let browser;
  let page;

  const { heading } = controls(() => page);
  const focused = () => page.evaluate(() => document.activeElement?.id);

  before(async () => {
    site = await startSite({ serve: [] });
    browser = await openBrowser(site.url, 'docs');
    ({ page } = browser);
  });
  after(async () => {
    await browser?.close();
    await site?.end();
  });

  it('finds a section with the keyboard, and leads to it', async () => {
    await page.goto(site.url);
    await page.getByRole('link', { name: 'Docs', exact: true }).click();
    await heading('Documentation').waitFor();
    assert.ok((await page.locator('#main').getByRole('listitem').count()) > 20);
    await page.getByRole('textbox', { name: searchField }).fill('before laptop leaves');
    await page.keyboard.press('Enter');
    await page.getByTestId('matches').filter({ hasText: /^\d+ sections contain/ }).waitFor();
    assert.ok((await page.locator('mark').count()) > 0);
    assert.equal(await page.evaluate(() => document.activeElement?.getAttribute('aria-label')), searchField);
    await page.goBack();
    await page.getByTestId('matches').waitFor({ state: 'detached' });
    assert.equal(await page.getByRole('textbox', { name: searchField }).inputValue(), '');
    await page.goForward();
    await page.getByTestId('matches').waitFor();
    await browser.screenshot('matches');
    await page.getByRole('link', { name: 'Network services for a bare site: Before the laptop leaves' }).focus();
    await page.keyboard.press('Enter');
    await heading('Before the laptop leaves').waitFor();
    assert.equal(new URL(page.url()).hash, '#before-the-laptop-leaves');
    assert.equal(await focused(), 'before-the-laptop-leaves');
    assert.ok((await heading('Before the laptop leaves').boundingBox()).y < 1000, 'it is visible');
    await browser.screenshot('a-section');
  });

  it('follows links between documents, and headings of the address', async () => {
    await page.goto(`${site.url}/docs/registry#releases`);
    await page.waitForFunction(() => document.activeElement?.id === 'releases');
    await page.getByTestId('document').getByRole('link', { name: 'security.md' }).click();
    await heading('Security').waitFor();
    await page.getByRole('navigation', { name: 'Sections of this document' }).getByRole('link').nth(1).click();
    assert.notEqual(new URL(page.url()).hash, '');
    await page.goto(`${site.url}/docs/security#100%`);
    await heading('Security').waitFor();
    await page.goto(`${site.url}/docs/nothing`);
    await heading('No such document').waitFor();
  });

  it('explains another page', async () => {
    await page.goto(`${site.url}/site-services`);
    await page.getByRole('link', { name: 'About these services' }).click();
    await heading('Network services for a bare site').waitFor();
  });

  it('loads the documents with their page only', async () => {
    const loaded = async (path) => {
      const names = [];
      const note = (request) => names.push(request.url());
      page.on('request', note);
      await page.goto(site.url + path, { waitUntil: 'networkidle' }).catch(() => undefined);
      page.off('request', note);
      return names.some((name) => name.includes('/DocsPage-'));
    };
    assert.equal(await loaded('/docs'), true);
    assert.equal(await loaded('/reference'), false);
  });

  it('no requests to other origins, no errors', () => {
    assert.deepEqual([browser.foreign, browser.errors], [[], []]);
  });
});
