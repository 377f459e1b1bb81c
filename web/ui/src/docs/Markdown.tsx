import { Content } from '@patternfly/react-core';
import { Table, Tbody, Td, Th, Thead, Tr } from '@patternfly/react-table';
import type { Token, Tokens } from 'marked';
import { Fragment, type ReactNode } from 'react';
import { Link } from 'react-router-dom-v5-compat';
import { targetOf, type Document } from './document';

type Props = { document: Document; topics: readonly string[] };

/**
 * A document. Its parts become elements of React, so that nothing in it can become a script. HTML
 * in it is left out.
 */
export const Markdown = ({ document, topics }: Props) => (
  <div className="landfall-docs" data-testid="document">
    <Blocks tokens={document.tokens} of={{ document, topics }} />
  </div>
);

type BlocksProps = { tokens: readonly Token[]; of: Props };

const Blocks = ({ tokens, of }: BlocksProps) => (
  <>
    {tokens.map((token, i) => (
      <Block key={i} token={token} of={of} />
    ))}
  </>
);

const Block = ({ token: any, of }: { token: Token; of: Props }) => {
  const token = any as Tokens.Generic;
  const inline = <Inline tokens={token.tokens ?? []} of={of} />;
  switch (token.type) {
    case 'heading':
      return <Heading token={any as Tokens.Heading} of={of} />;
    case 'paragraph':
      return <Content component="p">{inline}</Content>;
    case 'text':
      return token.tokens ? inline : <>{decode(String(token.text))}</>;
    case 'code':
      return <Code token={any as Tokens.Code} />;
    case 'blockquote':
      return (
        <Content component="blockquote">
          <Blocks tokens={token.tokens ?? []} of={of} />
        </Content>
      );
    case 'list':
      return <List token={any as Tokens.List} of={of} />;
    case 'table':
      return <Rows token={any as Tokens.Table} of={of} />;
    case 'hr':
      return <hr />;
    default:
      return null; // HTML and space
  }
};

const Heading = ({ token, of }: { token: Tokens.Heading; of: Props }) => {
  const component = (['h1', 'h2', 'h3', 'h4', 'h5', 'h6'] as const)[token.depth - 1] ?? 'h6';
  const anchor = of.document.anchors.get(token);
  return (
    <Content component={component} id={anchor} tabIndex={-1}>
      <Inline tokens={token.tokens} of={of} />
    </Content>
  );
};

const Code = ({ token: { lang, text } }: { token: Tokens.Code }) =>
  lang === 'mermaid' ? (
    <p className="landfall-subtle">A diagram, which this page can&apos;t show. The tables have its content.</p>
  ) : (
    // The keyboard scrolls long lines.
    <pre className="landfall-docs-code" tabIndex={0}>
      <code>{text}</code>
    </pre>
  );

const List = ({ token, of }: { token: Tokens.List; of: Props }) => (
  <Content component={token.ordered ? 'ol' : 'ul'} {...(typeof token.start === 'number' && { start: token.start })}>
    {token.items.map((item, i) => (
      <li key={i}>
        <Blocks tokens={item.tokens} of={of} />
      </li>
    ))}
  </Content>
);

const Rows = ({ token: { header, rows }, of }: { token: Tokens.Table; of: Props }) => (
  <Table variant="compact" aria-label={`Table of ${of.document.title}`}>
    <Thead>
      <Tr>
        {header.map((cell, i) => (
          <Th key={i} {...(cell.tokens.length === 0 && { screenReaderText: 'Without a name' })}>
            <Inline tokens={cell.tokens} of={of} />
          </Th>
        ))}
      </Tr>
    </Thead>
    <Tbody>
      {rows.map((row, i) => (
        <Tr key={i}>
          {row.map((cell, column) => (
            <Td key={column} dataLabel={header[column]?.text ?? ''}>
              <div className="landfall-address">
                <Inline tokens={cell.tokens} of={of} />
              </div>
            </Td>
          ))}
        </Tr>
      ))}
    </Tbody>
  </Table>
);

const Inline = ({ tokens, of }: BlocksProps) => (
  <>
    {tokens.map((token, i) => (
      <Fragment key={i}>{inlineOf(token as Tokens.Generic, of)}</Fragment>
    ))}
  </>
);

const inlineOf = (token: Tokens.Generic, of: Props): ReactNode => {
  const children = token.tokens ? <Inline tokens={token.tokens} of={of} /> : decode(String(token.text ?? ''));
  switch (token.type) {
    case 'strong':
      return <strong>{children}</strong>;
    case 'em':
      return <em>{children}</em>;
    case 'del':
      return <del>{children}</del>;
    case 'codespan':
      return <code>{token.text}</code>;
    case 'br':
      return <br />;
    case 'html':
      return /^<br\s*\/?>$/.test(token.raw.trim()) ? <br /> : null;
    case 'image':
      return <span className="landfall-subtle">(picture: {token.text})</span>;
    case 'link':
      return <Reference href={String(token.href)} of={of}>{children}</Reference>;
    default:
      return children;
  }
};

const Reference = ({ href, of, children }: { href: string; of: Props; children: ReactNode }) => {
  const target = targetOf(href, of.document.topic, of.topics);
  switch (target.kind) {
    case 'page':
      return <Link to={target.path}>{children}</Link>;
    case 'site':
      return (
        <a href={target.url} target="_blank" rel="noreferrer">
          {children}
        </a>
      );
    case 'none':
      return <>{children}</>;
  }
};

const entities: Record<string, string> = {
  '&lt;': '<',
  '&gt;': '>',
  '&amp;': '&',
  '&quot;': '"',
  '&#39;': "'",
  '&nbsp;': '\u00a0',
};

/** Replaces the entities that Markdown takes from HTML. */
const decode = (text: string): string =>
  text.replaceAll(/&(?:lt|gt|amp|quot|nbsp|#39);/g, (found) => entities[found] ?? found);
