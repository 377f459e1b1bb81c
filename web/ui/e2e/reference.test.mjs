// The page of the API's description, rendered without requests to other origins.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { openBrowser } from './browser.mjs';
import { fileLimit, startSite } from './site.mjs';

describe('description of the API', { timeout: fileLimit }, () => {
  let site;
  let browser;

  before(async () => {
    site = await startSite();
    browser = await openBrowser(site.url, 'reference');
  });
  after(async () => {
    await browser?.close();
    await site?.end();
  });

  it('finds an operation with its fields', async () => {
    const { page } = browser;
    await page.goto(site.url);
    await page.getByRole('link', { name: 'API', exact: true }).click();
    await page.waitForURL('**/reference');
    await page.getByRole('heading', { name: 'API', exact: true }).waitFor();
    const operations = page.getByTestId('operation');
    await operations.first().waitFor();
    assert.ok((await operations.count()) > 80);
    await page.getByRole('textbox', { name: 'Search the operations' }).fill('create cluster v2RegisterCluster');
    await page.waitForFunction(() => document.querySelectorAll('[data-testid=operation]').length === 1);
    await operations.getByRole('button').click();
    const field = (name) => page.getByRole('grid', { name: 'Fields of the body' }).getByText(name, { exact: true });
    await field('pull_secret').first().waitFor();
    await page.getByRole('grid', { name: 'Answers' }).getByText('422', { exact: true }).waitFor();
    const curl = await page.getByRole('textbox', { name: 'curl line for v2RegisterCluster' }).inputValue();
    assert.match(curl, /^curl -fsS -X POST -H "Authorization: Bearer \$LANDFALL_TOKEN" .*"name":"NAME"/);
    assert.ok(curl.endsWith(`'${site.url}/api/assisted-install/v2/clusters'`), curl);
    await browser.screenshot('an-operation');
    const download = page.waitForEvent('download');
    await page.getByRole('link', { name: /^Download this document/ }).click();
    assert.equal((await download).suggestedFilename(), 'landfall-openapi.json');
    assert.deepEqual([browser.foreign, browser.errors], [[], []]);
  });
});
