import {
  Breadcrumb,
  BreadcrumbItem,
  Content,
  EmptyState,
  EmptyStateBody,
  PageSection,
  SearchInput,
  Stack,
  StackItem,
} from '@patternfly/react-core';
import { useEffect, useMemo, useState } from 'react';
import { Link, useLocation, useNavigate, useParams, useSearchParams } from 'react-router-dom-v5-compat';
import { usePageTitle } from '../shell/usePageTitle';
import { library, marked, maxMatches, search, wordsOf, type Document } from './document';
import { files } from './files';
import { Markdown } from './Markdown';

const documents = library(files);
const topics = documents.map(({ topic }) => topic);

/** The page of the documentation: the topics, a search, and one document. */
const DocsPage = () => {
  const { topic } = useParams();
  const [parameters] = useSearchParams();
  const query = parameters.get('q') ?? '';
  const shown = documents.find((one) => one.topic === topic);
  usePageTitle(`${shown ? `${shown.title} · ` : ''}Documentation`);
  useAnchor(shown, query);
  const isSearch = query !== '';
  return (
    <div data-testid="docs">
      <PageSection hasBodyWrapper={false}>
        {shown && !isSearch && (
          <Breadcrumb>
            <BreadcrumbItem render={({ className }) => <Link className={className} to="/docs">Documentation</Link>} />
            <BreadcrumbItem isActive>{shown.title}</BreadcrumbItem>
          </Breadcrumb>
        )}
        {(!topic || isSearch) && <Content component="h1">Documentation</Content>}
        <Search query={query} />
      </PageSection>
      <PageSection hasBodyWrapper={false} isFilled>
        {isSearch && <Results query={query} />}
        {!isSearch && (topic === undefined ? <Topics /> : <Shown document={shown} topic={topic} />)}
      </PageSection>
    </div>
  );
};

export default DocsPage;

/** Leads to the heading in the address when a document is shown. */
const useAnchor = (shown: Document | undefined, query: string) => {
  const { hash } = useLocation();
  useEffect(() => {
    if (shown && query === '' && hash !== '') {
      const heading = document.getElementById(hash.slice(1));
      heading?.scrollIntoView({ block: 'start' });
      heading?.focus({ preventScroll: true });
    }
  }, [shown, hash, query]);
};

const Search = ({ query }: { query: string }) => {
  const [text, setText] = useState(query);
  const [shown, setShown] = useState(query);
  if (query !== shown) {
    // The address has another search. The field keeps the focus.
    setShown(query);
    setText(query);
  }
  const navigate = useNavigate();
  const { pathname } = useLocation();
  const go = (words: string) => {
    navigate(words.trim() === '' ? pathname : `/docs?q=${encodeURIComponent(words.trim())}`);
  };
  return (
    <SearchInput
      className="landfall-docs-search"
      aria-label="Search the documentation"
      placeholder="Search headings and text"
      value={text}
      onChange={(_event, value) => {
        setText(value);
      }}
      onSearch={() => {
        go(text);
      }}
      onClear={() => {
        setText('');
        go('');
      }}
    />
  );
};

const Results = ({ query }: { query: string }) => {
  const found = useMemo(() => search(documents, query), [query]);
  const words = wordsOf(query);
  const titleOf = (topic: string) => documents.find((one) => one.topic === topic)?.title ?? topic;
  return (
    <Stack hasGutter>
      <StackItem>
        <p role="status" data-testid="matches">
          {found.length === 0
            ? `No section contains “${query}”. Try fewer or shorter words.`
            : `${String(found.length)} ${found.length === 1 ? 'section contains' : 'sections contain'} “${query}”.`}
        </p>
      </StackItem>
      {found.slice(0, maxMatches).map(({ topic, anchor, title, line }) => (
        <StackItem key={`${topic}#${anchor}`} data-testid="match">
          <Link to={`/docs/${topic}${anchor && `#${anchor}`}`}>
            {title === titleOf(topic) ? title : `${titleOf(topic)}: ${title}`}
          </Link>
          <div className="landfall-address">
            {marked(line, words).map((part, i) => (part.isWord ? <mark key={i}>{part.text}</mark> : part.text))}
          </div>
        </StackItem>
      ))}
      {found.length > maxMatches && (
        <StackItem>{found.length - maxMatches} more sections contain the words. Add a word.</StackItem>
      )}
    </Stack>
  );
};

const Topics = () => (
  <Stack hasGutter>
    <StackItem>
      <Content component="p">
        The documents are part of this appliance, and need no internet. On the command line, landfall docs shows them.
      </Content>
    </StackItem>
    <StackItem>
      <Content component="ul">
        {documents.map(({ topic, title }) => (
          <li key={topic}>
            <Link to={`/docs/${topic}`}>{title}</Link>
          </li>
        ))}
      </Content>
    </StackItem>
  </Stack>
);

const Shown = ({ document: shown, topic }: { document: Document | undefined; topic: string }) => {
  if (!shown) {
    return (
      <EmptyState titleText="No such document" headingLevel="h1">
        <EmptyStateBody>
          There is no document “{topic}”. <Link to="/docs">All documents</Link>
        </EmptyStateBody>
      </EmptyState>
    );
  }
  const headings = shown.sections.filter(({ level }) => level === 2);
  return (
    <div className="landfall-docs-columns">
      <article>
        <Markdown key={topic} document={shown} topics={topics} />
      </article>
      {headings.length > 1 && (
        <nav aria-label="Sections of this document">
          <ul>
            {headings.map(({ anchor, title }) => (
              <li key={anchor}>
                <Link to={`/docs/${topic}#${anchor}`}>{title}</Link>
              </li>
            ))}
          </ul>
        </nav>
      )}
    </div>
  );
};
