import {
  Alert,
  Button,
  Content,
  FormSelect,
  FormSelectOption,
  PageSection,
  Spinner,
  Stack,
  StackItem,
  Toolbar,
  ToolbarContent,
  ToolbarItem,
} from '@patternfly/react-core';
import { useCallback, useEffect, useState } from 'react';
import { Link, useSearchParams } from 'react-router-dom-v5-compat';
import { useMay } from '../access/AccessProvider';
import { Help } from '../shell/Help';
import { sentenceOf } from '../shell/request';
import { useAction } from '../shell/useAction';
import { useAnswer } from '../shell/useAnswer';
import { usePageTitle } from '../shell/usePageTitle';
import {
  areSame,
  listInfraEnvs,
  previewHosts,
  readHosts,
  saveHosts,
  withoutSecrets,
  type HostConfig,
  type Preview,
} from './api';
import { fromConfig, newHost, toConfig, type Described } from './hosts';
import { forgetDraft, keepDraft, keepSent, readDraft, readSent } from './drafts';
import { HostCard } from './HostCard';

const everyTime = () => 10_000;
const once = () => undefined;
const settledAfter = 300;

/**
 * The page of hosts' networks: the hosts of one infra-env, each as a form or YAML, with a preview.
 */
const NetworksPage = () => {
  const { answer: infraEnvs, error } = useAnswer(listInfraEnvs, everyTime);
  const [query, setQuery] = useSearchParams();
  // The list is in the order of the names: a new infra-env may become the first one meanwhile.
  const [first, setFirst] = useState('');
  if (first === '' && infraEnvs?.[0]) {
    setFirst(infraEnvs[0].id);
  }
  const id = query.get('infra_env') ?? first;
  usePageTitle('Networks');
  return (
    <>
      <PageSection hasBodyWrapper={false}>
        <Content component="h1">Networks</Content>
        <Content component="p">
          Static networks of hosts without DHCP. The discovery image contains them, and installed hosts keep them.{' '}
          <Help to="networks">About static networks</Help>
        </Content>
      </PageSection>
      <PageSection hasBodyWrapper={false} isFilled>
        {error && <Alert isInline variant="danger" title={sentenceOf(error)} />}
        {infraEnvs?.length === 0 && id === '' && (
          <Alert isInline variant="info" title="No infra-env yet.">
            The networks of hosts belong to an infra-env, from whose image the hosts boot. A new{' '}
            <Link to="/assisted-installer/clusters">cluster</Link> has one.
          </Alert>
        )}
        {id !== '' && infraEnvs && (
          <>
            <Toolbar>
              <ToolbarContent alignItems="center">
                <ToolbarItem>
                  <FormSelect
                    aria-label="Infra-env"
                    value={id}
                    onChange={(_event, chosen) => {
                      setQuery({ infra_env: chosen });
                    }}
                  >
                    {infraEnvs.map((env) => (
                      <FormSelectOption key={env.id} value={env.id} label={env.name} />
                    ))}
                    {infraEnvs.every((env) => env.id !== id) && (
                      <FormSelectOption value={id} label="Deleted infra-env" />
                    )}
                  </FormSelect>
                </ToolbarItem>
              </ToolbarContent>
            </Toolbar>
            <Saved key={id} infraEnvId={id} />
          </>
        )}
      </PageSection>
    </>
  );
};

export default NetworksPage;

/** Reads the saved networks once, so that they do not overwrite the user's changes. */
const Saved = ({ infraEnvId }: { infraEnvId: string }) => {
  const load = useCallback((signal: AbortSignal) => readHosts(infraEnvId, signal), [infraEnvId]);
  const { answer, error, refetch } = useAnswer(load, once);
  if (error) {
    return (
      <Alert
        isInline
        variant="danger"
        title={sentenceOf(error)}
        actionLinks={
          <Button variant="link" isInline onClick={refetch}>
            Try again
          </Button>
        }
      />
    );
  }
  return answer ? (
    <Hosts infraEnvId={infraEnvId} saved={answer} />
  ) : (
    <Spinner aria-label="Reading the networks" />
  );
};

/** Returns the value once it has not changed for a while. */
const useSettled = <T,>(value: T): T => {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => {
      setSettled(value);
    }, settledAfter);
    return () => {
      clearTimeout(timer);
    };
  }, [value]);
  return settled;
};

type Outcome = { text: string; isWrong: boolean };

type HostsProps = { infraEnvId: string; saved: HostConfig[] };

const Hosts = ({ infraEnvId, saved }: HostsProps) => {
  const [hosts, setHosts] = useState<Described[]>(() => readDraft(infraEnvId)?.hosts ?? saved.map(fromConfig));
  // The saved networks that the changes began with, and the newest ones that the page knows.
  const [base, setBase] = useState(() => readDraft(infraEnvId)?.base ?? saved);
  const [newest, setNewest] = useState(saved);
  const [isConflict, setConflict] = useState(false);
  const [isUnsaved, setUnsaved] = useState(() => readDraft(infraEnvId) !== undefined);
  const [open, setOpen] = useState<number | undefined>(saved.length === 1 ? 0 : undefined);
  const [outcome, setOutcome] = useState<Outcome>();
  const mayEdit = useMay('operator');
  // One for all buttons: networks that are being saved can neither be saved again nor discarded.
  const { isRunning, run } = useAction();
  const settled = useSettled(hosts);
  const load = useCallback(
    (signal: AbortSignal) =>
      mayEdit ? previewHosts(infraEnvId, settled.map(toConfig), signal) : Promise.resolve(undefined),
    [infraEnvId, settled, mayEdit],
  );
  const { answer: preview, error } = useAnswer(load, once);
  const change = (altered: Described[]) => {
    setHosts(altered);
    setOutcome(undefined);
    setUnsaved(true);
    keepDraft(infraEnvId, { hosts: altered, base });
  };
  const discard = () => {
    setHosts(newest.map(fromConfig));
    setBase(newest);
    setConflict(false);
    setOutcome(undefined);
    setUnsaved(false);
    forgetDraft(infraEnvId);
  };
  // Infra-envs have no revision that the request could name, so the page compares.
  const save = async (replaced: HostConfig[]) => {
    setOutcome(undefined);
    try {
      const mine = hosts.map(toConfig);
      const present = await readHosts(infraEnvId);
      setNewest(present);
      const sent = readSent(infraEnvId) ?? mine;
      const isKnown = [replaced, mine, sent].some((known) => areSame(present, known));
      // Operators send new passwords, but can't read them.
      if (!isKnown && !areSame(present, await withoutSecrets(infraEnvId, sent))) {
        setConflict(true);
        return;
      }
      keepSent(infraEnvId, mine);
      const stored = await saveHosts(infraEnvId, mine);
      keepSent(infraEnvId, stored);
      setBase(stored);
      setNewest(stored);
      setConflict(false);
      setOutcome({ text: 'Saved. New downloads of the image contain the networks.', isWrong: false });
      const draft = readDraft(infraEnvId);
      if (draft && draft.hosts !== hosts) {
        keepDraft(infraEnvId, { ...draft, base: stored }); // it changed meanwhile, and is not saved
      } else {
        setUnsaved(false);
        forgetDraft(infraEnvId);
      }
    } catch (thrown) {
      setOutcome({ text: sentenceOf(thrown), isWrong: true });
    }
  };
  const isEmpty = hosts.length === 0 && !isUnsaved;
  return (
    <Stack hasGutter>
      {isUnsaved && (
        <StackItem>
          <Alert
            isInline
            variant="warning"
            title="These changes are not saved."
            actionLinks={
              <Button variant="link" isInline isAriaDisabled={isRunning} onClick={discard}>
                Discard the changes
              </Button>
            }
            data-testid="networks-unsaved"
          >
            You can open other pages of Landfall and come back. The changes are lost when you load the page again or log
            out. The image does not contain them yet.
          </Alert>
        </StackItem>
      )}
      {isEmpty && <StackItem>No host of this image has a static network.</StackItem>}
      {hosts.map((described, place) => (
        <StackItem key={place}>
          <HostCard
            number={place}
            described={described}
            preview={preview?.hosts[place]}
            isOpen={open === place}
            onToggle={() => {
              setOpen(open === place ? undefined : place);
            }}
            onChange={(altered) => {
              change(hosts.map((one, i) => (i === place ? altered : one)));
            }}
            onRemove={() => {
              change(hosts.filter((_, i) => i !== place));
              setOpen(undefined);
            }}
          />
        </StackItem>
      ))}
      {mayEdit && (
        <StackItem>
          <Button
            variant="secondary"
            onClick={() => {
              change([...hosts, { host: nextHost(hosts) }]);
              setOpen(hosts.length);
            }}
          >
            Add a host
          </Button>
        </StackItem>
      )}
      {preview && hosts.length > 0 && (
        <StackItem>
          <StoredForm preview={preview} />
        </StackItem>
      )}
      {error && (
        <StackItem>
          <Alert isInline variant="danger" title={sentenceOf(error)} />
        </StackItem>
      )}
      {outcome && (
        <StackItem>
          <Alert
            isInline
            variant={outcome.isWrong ? 'danger' : 'success'}
            title={outcome.text}
            data-testid="networks-outcome"
          />
        </StackItem>
      )}
      {isConflict && (
        <StackItem>
          <Alert
            isInline
            variant="warning"
            title="Not saved: somebody else has changed these networks meanwhile."
            actionLinks={
              <>
                <Button variant="link" isInline isAriaDisabled={isRunning} onClick={() => void run(() => save(newest))}>
                  Replace them with mine
                </Button>
                <Button variant="link" isInline isAriaDisabled={isRunning} onClick={discard}>
                  Discard my changes and show them
                </Button>
              </>
            }
            data-testid="networks-conflict"
          />
        </StackItem>
      )}
      {mayEdit && !isEmpty && (
        <StackItem>
          <Button isAriaDisabled={isRunning} isLoading={isRunning} onClick={() => void run(() => save(base))}>
            Save
          </Button>
        </StackItem>
      )}
    </Stack>
  );
};

/** A new host with the settings that hosts of a site share. */
const nextHost = (hosts: Described[]) => {
  const last = hosts.at(-1)?.host;
  const host = newHost();
  return last
    ? {
        ...last,
        nics: last.nics.map(({ name }) => ({ mac: '', name })),
        v4: { ...last.v4, address: '' },
        v6: { ...last.v6, address: '' },
      }
    : host;
};

const formTexts = {
  keyfiles:
    'NetworkManager selects each host’s settings by its MAC addresses. ' +
    'They work with every release and kind of image.',
  script:
    'A script in the image selects each host’s settings by its MAC addresses. ' +
    'They work with every release and kind of image.',
  policy: 'nmstate on the hosts applies the settings. This requires OpenShift 4.18 and the full image.',
};

const StoredForm = ({ preview: { way: form, reason } }: { preview: Preview }) => (
  <Alert
    isInline
    isPlain
    variant={form === 'policy' ? 'warning' : 'info'}
    title={formTexts[form]}
    data-testid="networks-form"
  >
    {reason !== undefined && `The reason is ${reason}.`}
  </Alert>
);
