import { Card, CardBody, CardTitle, Content, Label } from '@patternfly/react-core';
import type { ReactNode } from 'react';
import { Failure } from '../shell/Failure';

type Props = {
  /** The part of the address that names the setting. */
  id: string;
  title: string;
  /** What the setting is for. */
  about: string;
  isFixed?: boolean;
  /** The error of the last change; '' if it succeeded. */
  failure?: string;
  children: ReactNode;
};

/** The card of a setting. */
export const Setting = ({ id, title, about, isFixed = false, failure = '', children }: Props) => (
  <Card component="section" id={id} aria-labelledby={`${id}-title`} data-testid={`setting-${id}`}>
    <CardTitle>
      <h2 id={`${id}-title`} className="landfall-card-title">
        {title} {isFixed && <Label>Set in the configuration file</Label>}
      </h2>
    </CardTitle>
    <CardBody>
      <Content component="p">{about}</Content>
      {children}
      <Failure text={failure} />
    </CardBody>
  </Card>
);
