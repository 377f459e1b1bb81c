import { Alert, ExpandableSection, List, ListItem } from '@patternfly/react-core';
import { useState } from 'react';
import type { Hole } from './api';
import { kindsOf } from './kinds';

/** The warnings about the rules. Those of a kind are often a hundred, so one shows the others. */
export const Holes = ({ holes }: { holes: Hole[] }) => (
  <>
    {kindsOf(holes).map(([first, ...others]) => (
      <Alert
        key={`${first.kind} ${String(first.grave)}`}
        isInline
        isPlain
        component="p"
        variant={first.grave ? 'danger' : 'info'}
        title={first.text}
      >
        {others.length > 0 && <Others holes={others} />}
      </Alert>
    ))}
  </>
);

const Others = ({ holes }: { holes: Hole[] }) => {
  const [isExpanded, setExpanded] = useState(false);
  return (
    <ExpandableSection
      toggleText={`${isExpanded ? 'Hide' : 'Show'} ${String(holes.length)} more of this kind`}
      isExpanded={isExpanded}
      onToggle={(_event, expanded) => {
        setExpanded(expanded);
      }}
    >
      {isExpanded && (
        <List>
          {holes.map(({ prefix, text }) => (
            <ListItem key={prefix + text}>{text}</ListItem>
          ))}
        </List>
      )}
    </ExpandableSection>
  );
};
