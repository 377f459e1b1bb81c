import { StackItem } from '@patternfly/react-core';
import type { ReactNode } from 'react';
import { SectionCard } from '../shell/SectionCard';

type Props = { id: string; title: string; children: ReactNode };

/** A card of the overview. */
export const OverviewCard = ({ id, title, children }: Props) => (
  <StackItem>
    <SectionCard id={`overview-${id}`} title={title}>
      {children}
    </SectionCard>
  </StackItem>
);
