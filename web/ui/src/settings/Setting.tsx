import { Card, CardBody, CardTitle, Content, Label } from '@patternfly/react-core';
import type { ReactNode } from 'react';

type Props = {
  /** The part of the address that names the setting. */
  id: string;
  title: string;
  /** What the setting is for. */
  about: string;
  isFixed?: boolean;
  children: ReactNode;
};

/** The card of a setting. */
export const Setting = ({ id, title, about, isFixed = false, children }: Props) => (
  <Card component="section" id={id} aria-labelledby={`${id}-title`} data-testid={`setting-${id}`}>
    <CardTitle>
      <h2 id={`${id}-title`} className="landfall-card-title">
        {title} {isFixed && <Label>Set in the configuration file</Label>}
      </h2>
    </CardTitle>
    <CardBody>
      <Content component="p">{about}</Content>
      {children}
    </CardBody>
  </Card>
);
