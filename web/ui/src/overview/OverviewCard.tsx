import { Card, CardBody, CardTitle, StackItem } from '@patternfly/react-core';
import type { ReactNode } from 'react';

type Props = { id: string; title: string; children: ReactNode };

/** A card of the overview. */
export const OverviewCard = ({ id, title, children }: Props) => (
  <StackItem>
    <Card component="section" aria-labelledby={`overview-${id}`} data-testid={`overview-${id}`}>
      <CardTitle>
        <h2 id={`overview-${id}`} className="landfall-card-title">
          {title}
        </h2>
      </CardTitle>
      <CardBody>{children}</CardBody>
    </Card>
  </StackItem>
);
