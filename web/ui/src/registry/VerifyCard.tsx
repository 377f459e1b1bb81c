import { Alert, Content, List, ListItem, Progress, Stack, StackItem } from '@patternfly/react-core';
import { Requires } from '../access/AccessProvider';
import { ActionButton } from '../shell/ActionButton';
import { bytes } from '../shell/quantities';
import { SectionCard } from '../shell/SectionCard';
import type { Act } from '../shell/useAct';
import { startVerify, type Verify } from './api';
import { verdictOf } from './words';

/** The comparison of all blobs with their digests. */
export const VerifyCard = ({ verify, act }: { verify: Verify; act: Act }) => (
  <SectionCard id="registry-verify" title="Verification">
    <Stack hasGutter>
      <StackItem>
        <Content component="p">
          The first pull of each blob compares it with its digest. A verification compares all blobs: it reads the
          present media, their copies on the disk, and the pushed images completely.
        </Content>
      </StackItem>
      <StackItem>{verify.running ? <Running verify={verify} /> : <Verdict verify={verify} />}</StackItem>
      <Requires role="operator">
        <StackItem>
          <ActionButton variant="secondary" isDisabled={verify.running} onAct={() => act(startVerify)}>
            Verify all blobs
          </ActionButton>
        </StackItem>
      </Requires>
    </Stack>
  </SectionCard>
);

const Running = ({ verify: { done_bytes: done, total_bytes: total, damaged } }: { verify: Verify }) => (
  <Progress
    title="Comparing the blobs with their digests"
    value={done}
    max={Math.max(total, 1)}
    label={`${bytes(done)} of ${bytes(total)}`}
    {...(damaged.length > 0 && { helperText: `${String(damaged.length)} damaged so far` })}
  />
);

const Verdict = ({ verify }: { verify: Verify }) => {
  const { tone, text } = verdictOf(verify);
  if (!tone) {
    return <Content component="p">{text}</Content>;
  }
  return (
    <Alert isInline variant={tone} title={text} data-testid="verdict" className="landfall-address">
      {verify.damaged.length > 0 && (
        <List>
          {verify.damaged.map((place) => (
            <ListItem key={place}>{place}</ListItem>
          ))}
        </List>
      )}
    </Alert>
  );
};
