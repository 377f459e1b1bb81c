import {
  Alert,
  Card,
  CardBody,
  CardTitle,
  Content,
  Flex,
  FlexItem,
  FormSelect,
  FormSelectOption,
  List,
  ListItem,
  Progress,
  Stack,
} from '@patternfly/react-core';
import { useCallback, useState } from 'react';
import { Link } from 'react-router-dom-v5-compat';
import { Requires } from '../access/AccessProvider';
import { ActionButton } from '../shell/ActionButton';
import { LoadError } from '../shell/LoadError';
import { sentenceOf } from '../shell/request';
import { useAnswer } from '../shell/useAnswer';
import { listReleases, listURL, shownProof, startProof, type Proof, type Shown } from './api';

const once = () => undefined;
const often = 500;
const seldom = 5_000;
const wait = (shown: Shown | undefined) => (shown?.proof?.state === 'running' ? often : seldom);

/**
 * Checks whether the mirror has all images of a release or of a cluster, and lists the missing
 * ones.
 */
export const ProofPanel = ({ cluster }: { cluster: string | undefined }) => {
  const { answer: listed, error: listError } = useAnswer(listReleases, once);
  const releases = listed ?? [];
  // Installations and other users can start proofs at any time.
  const [started, setStarted] = useState<string>();
  const readProof = useCallback((signal: AbortSignal) => shownProof({ started, cluster }, signal), [started, cluster]);
  const { answer: shown, error, refetch } = useAnswer(readProof, wait);
  const [chosen, setChosen] = useState('');
  const [failure, setFailure] = useState('');
  const proof = shown?.proof;
  const release = chosen || (releases[0] ?? '');
  const prove = async () => {
    try {
      const { id } = await startProof(cluster ? { cluster_id: cluster } : { release });
      setStarted(id);
      setFailure('');
    } catch (thrown) {
      setFailure(sentenceOf(thrown));
    }
    refetch();
  };
  return (
    <Card>
      <CardTitle>Completeness</CardTitle>
      <CardBody>
        <Stack hasGutter>
          {!cluster && listed?.length === 0 && (
            <Content component="p">
              This appliance has no release to check. <Link to="/settings">Add one in the settings.</Link>
            </Content>
          )}
          <Flex>
            {!cluster && releases.length > 0 && (
              <FlexItem>
                <FormSelect
                  aria-label="Release"
                  value={release}
                  style={{ width: 'auto' }}
                  onChange={(_event, value) => {
                    setChosen(value);
                  }}
                >
                  {releases.map((version) => (
                    <FormSelectOption key={version} value={version} label={`OpenShift ${version}`} />
                  ))}
                </FormSelect>
              </FlexItem>
            )}
            <Requires role="operator">
              <ActionButton
                isDisabled={(!cluster && release === '') || proof?.state === 'running'}
                onAct={prove}
              >
                Check the mirror
              </ActionButton>
            </Requires>
          </Flex>
          <LoadError error={listError ?? error} />
          {failure !== '' && <Alert isInline variant="danger" title={failure} />}
          {proof && <Outcome proof={proof} />}
        </Stack>
      </CardBody>
    </Card>
  );
};

const Outcome = ({ proof }: { proof: Proof }) => {
  if (proof.state === 'running') {
    return (
      <Progress
        data-testid="progress"
        title={`Checking the images of ${proof.release}`}
        value={proof.images}
        max={Math.max(proof.total, 1)}
        label={`${String(proof.images)} of ${String(proof.total)}`}
      />
    );
  }
  const bad = (proof.report?.results ?? []).filter(({ verdict, optional }) => verdict !== 'held' && !optional);
  return (
    <Alert
      isInline
      data-testid="proof"
      variant={proof.complete ? 'success' : 'danger'}
      title={proof.message ?? 'The proof ended without a message.'}
    >
      <List>
        {proof.report?.faults.map(({ text, images }) => (
          <ListItem key={text}>
            {text} ({images} images)
          </ListItem>
        ))}
        {bad.map(({ ref, text }) => text !== undefined && <ListItem key={ref}>{text}</ListItem>)}
        {proof.report?.warnings.map((warning) => (
          <ListItem key={warning}>{warning}</ListItem>
        ))}
      </List>
      {(proof.awaited ?? 0) > 0 &&
        `${String(proof.arrived ?? 0)} of ${String(proof.awaited)} images of the last list have arrived. `}
      {bad.length > 0 && (
        <Flex>
          <a href={listURL(proof, 'text')}>List for the courier</a>
          <a href={listURL(proof, 'imageset')}>Image set for oc-mirror</a>
          <a href={listURL(proof, 'csv')}>Table</a>
        </Flex>
      )}
    </Alert>
  );
};
