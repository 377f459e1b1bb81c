import { Content, PageSection, Stack } from '@patternfly/react-core';
import type { ComponentProps, ReactNode } from 'react';
import { PageStatus } from './PageStatus';
import { usePageTitle } from './usePageTitle';

type Props = ComponentProps<typeof PageStatus> & {
  /** The heading, and the title of the browser's window. */
  title: string;
  /** What the page is for. */
  about: ReactNode;
  /** What is below that: buttons, or an address. */
  head?: ReactNode;
  /** The items of a stack below the errors of the page. */
  children: ReactNode;
};

/** A page with a heading, its errors, and a stack of cards. */
export const PageFrame = ({ title, about, head, children, ...status }: Props) => {
  usePageTitle(title);
  return (
    <>
      <PageSection hasBodyWrapper={false}>
        <Content component="h1">{title}</Content>
        <Content component="p">{about}</Content>
        {head}
      </PageSection>
      <PageSection hasBodyWrapper={false} isFilled>
        <Stack hasGutter>
          <PageStatus {...status} />
          {children}
        </Stack>
      </PageSection>
    </>
  );
};
