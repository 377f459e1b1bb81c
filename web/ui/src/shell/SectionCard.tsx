import { Card, CardBody, CardTitle } from '@patternfly/react-core';
import type { ReactNode } from 'react';

type Props = {
  /** The id of the heading and of the part for tests. */
  id: string;
  title: string;
  children: ReactNode;
};

/** A card that is a section of its page. */
export const SectionCard = ({ id, title, children }: Props) => (
  <Card component="section" aria-labelledby={id} data-testid={id}>
    <CardTitle>
      <h2 id={id} className="landfall-card-title">
        {title}
      </h2>
    </CardTitle>
    <CardBody>{children}</CardBody>
  </Card>
);
