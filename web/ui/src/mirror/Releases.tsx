import {
  Alert,
  Card,
  CardBody,
  CardTitle,
  Content,
  Flex,
  FlexItem,
  List,
  ListItem,
  TextInput,
} from '@patternfly/react-core';
import { useMay } from '../access/AccessProvider';
import { ActionButton } from '../shell/ActionButton';
import { moment } from '../shell/quantities';
import { sentenceOf } from '../shell/request';
import type { Act } from '../shell/useAct';
import { useAnswer } from '../shell/useAnswer';
import { useKept } from '../shell/useKept';
import { allowRelease, forgetRelease, readReleases } from './releases';

const seldom = () => 30_000;

/** The releases that clusters may use. Administrators allow further ones. */
export const Releases = ({ act }: { act: Act }) => {
  const { answer: list, error, refetch } = useAnswer(readReleases, seldom);
  const { value: release, keep: setRelease } = useKept<string>('mirror-release', (left = '') => left);
  const administers = useMay('admin');
  const change = (work: () => Promise<unknown>) => act(work).finally(refetch);
  const keys = list?.signing_keys ?? [];
  return (
    <Card data-testid="releases">
      <CardTitle>Allowed releases</CardTitle>
      <CardBody>
        <Content component="p">
          Clusters may use the releases of the configuration, releases with a valid signature, and those that an
          administrator allows. The installer of a release runs on this appliance, so allow only releases that you
          trust.
        </Content>
        {error && <Alert isInline variant="danger" title={sentenceOf(error)} />}
        <List isPlain aria-label="Allowed releases">
          {list?.releases?.map(({ digest, pull_spec: pullSpec, source, by, at, path, signed_by: key }) => (
            <ListItem key={`${digest}${pullSpec ?? ''}`} className="landfall-address">
              {pullSpec ?? digest}:{' '}
              {source === 'administrator' && `allowed by ${by ?? 'an administrator'} ${moment(at ?? '')} `}
              {source === 'medium' &&
                `on ${path ?? 'a medium'}, named by ${by ?? 'an administrator'} ${moment(at ?? '')} `}
              {source === 'configured' && 'configured '}
              {key && `signed by ${key.owner} `}
              {administers && ['administrator', 'medium'].includes(source) && (
                <ActionButton variant="link" isInline onAct={() => change(() => forgetRelease(digest))}>
                  Forget
                </ActionButton>
              )}
            </ListItem>
          ))}
        </List>
        {list && (
          <Content component="small">
            {keys.length === 0
              ? 'No key for signatures of releases is configured.'
              : `Signatures are verified with ${keys.map(({ owner }) => owner).join(', ')}.`}
          </Content>
        )}
        {administers && (
          <Flex className="landfall-row">
            <FlexItem grow={{ default: 'grow' }}>
              <TextInput
                aria-label="Digest or pull spec of a release"
                placeholder="sha256:… or the pull spec of a release"
                value={release}
                onChange={(_event, value) => {
                  setRelease(value);
                }}
              />
            </FlexItem>
            <FlexItem>
              <ActionButton
                variant="secondary"
                isDisabled={release.trim() === ''}
                onAct={() =>
                  change(() => allowRelease(release.trim())).then((done) => {
                    if (done) {
                      setRelease('');
                    }
                  })
                }
              >
                Allow
              </ActionButton>
            </FlexItem>
          </Flex>
        )}
      </CardBody>
    </Card>
  );
};
