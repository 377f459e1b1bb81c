import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';
import { describe, expect, it } from 'vitest';

/** Matches text with two words. Identifiers, paths and class names of one word are not listed. */
const prose = /[A-Za-z]{2,}[,:;]? [a-zA-Z{<]/;

/** Attributes whose values the page does not show. */
const hiddenAttributes = new Set(['className', 'd', 'viewBox', 'style', 'points', 'transform']);

/**
 * Calls `report` with each sentence of a source file, in the order of the file. Values become the
 * placeholders {0}, {1}, and elements inside a sentence become the tags <0>, <1>.
 */
const inspectSentences = (name: string, source: string, report: (text: string) => void): void => {
  const file = ts.createSourceFile(name, source, ts.ScriptTarget.Latest, true);
  const add = (text: string): void => {
    const line = text.replace(/\s+/g, ' ').trim();
    if (prose.test(line)) {
      report(line);
    }
  };
  const visit = (node: ts.Node): void => {
    if (ts.isImportDeclaration(node) || (ts.isJsxAttribute(node) && hiddenAttributes.has(node.name.getText()))) {
      return;
    }
    if (ts.isStringLiteral(node) || ts.isNoSubstitutionTemplateLiteral(node)) {
      add(node.text);
    } else if (ts.isTemplateExpression(node)) {
      add(node.head.text + node.templateSpans.map(({ literal }, n) => `{${String(n)}}${literal.text}`).join(''));
    } else if (ts.isJsxElement(node) || ts.isJsxFragment(node)) {
      add(sentenceOf(node));
    }
    if (!isPartOfSentence(node)) {
      ts.forEachChild(node, visit);
      return;
    }
    // The text of the element is in the sentence already. Its attributes and values are not.
    ts.forEachChild(node, (child) => {
      if (!ts.isJsxText(child)) {
        visit(child);
      }
    });
  };
  visit(file);
};

type Element = ts.JsxElement | ts.JsxFragment;

const hasText = (node: Element): boolean => node.children.some((child) => ts.isJsxText(child) && /\S/.test(child.text));

const isPartOfSentence = (node: ts.Node): boolean => ts.isJsxElement(node) && hasText(node);

/** Returns the text of an element, or nothing if it has only other elements. */
const sentenceOf = (node: Element): string => {
  if (!hasText(node)) {
    return '';
  }
  let placeholders = 0;
  const textOf = (child: ts.JsxChild): string => {
    if (ts.isJsxText(child)) {
      return child.text.replace(/&rsquo;/g, '’').replace(/&apos;/g, "'").replace(/&amp;/g, '&');
    }
    if (ts.isJsxExpression(child)) {
      if (!child.expression) {
        return '';
      }
      return ts.isStringLiteral(child.expression) ? child.expression.text : `{${String(placeholders++)}}`;
    }
    const n = String(placeholders++);
    return ts.isJsxSelfClosingElement(child) ? `<${n}/>` : `<${n}>${child.children.map(textOf).join('')}</${n}>`;
  };
  return node.children.map(textOf).join('');
};

/** Returns the source files of the page. The directory uilib overrides files of the library. */
const sources = (directory: string): string[] =>
  readdirSync(directory, { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.tsx?$/.test(name) && !name.startsWith('uilib/'))
    .sort()
    .map((name) => join(directory, name));

/** Returns the catalogue as a template (POT) of GNU gettext, as docs/sentences/program.pot. */
const template = (found: Map<string, string[]>): string =>
  [
    '# The sentences of the page. The file is generated: make docs.\n' +
      'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n"Language: en\\n"\n',
    ...[...found].map(
      ([text, files]) => `${files.map((file) => `#: ${file}\n`).join('')}msgid ${JSON.stringify(text)}\nmsgstr ""\n`,
    ),
  ].join('\n');

describe('the sentences of the page', () => {
  it('are all in the catalogue', async () => {
    const found = new Map<string, string[]>();
    for (const name of sources('src')) {
      const file = join('web/ui', name);
      inspectSentences(name, readFileSync(name, 'utf8'), (text) => {
        const files = found.get(text) ?? [];
        found.set(text, files.includes(file) ? files : [...files, file]);
      });
    }
    expect(found.size).toBeGreaterThan(500);
    await expect(template(found)).toMatchFileSnapshot('../../../docs/sentences/page.pot');
  });

  it('have placeholders for values and tags for elements', () => {
    const found: string[] = [];
    inspectSentences(
      'a.tsx',
      `import a from 'some module';
       const title = \`Boot \${name} now\`;
       const page = (
         <div className="two words" title="Close this">
           Started {moment(at)},
           running for <b>{took} of time</b>.
         </div>
       );`,
      (text) => found.push(text),
    );
    expect(found).toEqual([
      'Boot {0} now',
      'Started {0}, running for <1>{2} of time</1>.',
      'Close this',
      '{0} of time',
    ]);
  });
});
