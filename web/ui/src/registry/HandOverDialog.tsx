import { Alert, Checkbox, FormGroup, Radio, TextArea } from '@patternfly/react-core';
import { useState } from 'react';
import { ActionButton } from '../shell/ActionButton';
import { FormDialog } from '../shell/FormDialog';
import { sentenceOf } from '../shell/request';
import { TextField } from '../shell/TextField';
import { planHandOver, startHandOver, type HandOver, type HandOverRequest } from './api';
import { handOverPlanText, notesOf } from './words';

const ways: { id: HandOverRequest['way']; label: string; description: string }[] = [
  {
    id: 'add-mirror',
    label: "Add the site's registry to the clusters",
    description: 'The clusters have both mirrors. With your word, they lose the first one; their nodes drain then.',
  },
  {
    id: 'move-name',
    label: 'Move the DNS name of this registry',
    description:
      "Nothing changes in the clusters. The site's registry needs the same port, and a certificate for the name.",
  },
];

/** Starts a hand-over to a registry of the site, after it has shown what is copied. */
export const HandOverDialog = ({ before, onClose }: { before: HandOver | null; onClose: () => void }) => {
  const [way, setWay] = useState<HandOverRequest['way']>(before?.way ?? 'add-mirror');
  const [to, setTo] = useState(before?.to ?? '');
  const [ca, setCA] = useState('');
  const [secret, setSecret] = useState('');
  const [nodeSecret, setNodeSecret] = useState('');
  const [isNeededOnly, setNeededOnly] = useState(before?.needed ?? false);
  const [outcome, setOutcome] = useState<{ of: string; plan?: HandOver; failure?: string }>();
  const wanted: HandOverRequest = {
    ...{ way, to: to.trim() },
    ...(ca.trim() && { ca }),
    ...(secret.trim() && { pull_secret: secret.trim() }),
    ...(way === 'add-mirror' && nodeSecret.trim() && { node_secret: nodeSecret.trim() }),
    ...(isNeededOnly && { needed: true }),
  };
  const isComplete = wanted.to !== '';
  // A plan for other input is not shown: the input may have changed while it was made, too.
  const of = JSON.stringify(wanted);
  const { plan, failure } = outcome?.of === of ? outcome : {};
  const show = async () => {
    setOutcome(undefined);
    try {
      setOutcome({ of, plan: await planHandOver(wanted) });
    } catch (error) {
      setOutcome({ of, failure: sentenceOf(error) });
    }
  };
  return (
    <FormDialog
      title="Hand the registry over"
      action="Hand over"
      isComplete={isComplete}
      onSend={() => startHandOver(wanted)}
      onClose={onClose}
    >
      <TextField
        id="hand-over-to"
        label="Registry of the site"
        help="Its host and port, such as registry.site.example:5000."
        isRequired
        value={to}
        onChange={setTo}
      />
      <FormGroup role="radiogroup" label="Way" fieldId="hand-over-way">
        {ways.map(({ id, label, description }) => (
          <Radio
            key={id}
            id={`hand-over-way-${id}`}
            name="hand-over-way"
            label={label}
            description={description}
            isChecked={way === id}
            onChange={() => {
              setWay(id);
            }}
          />
        ))}
      </FormGroup>
      <TextField
        id="hand-over-secret"
        label="Pull secret that may push"
        help="JSON with an entry for the registry. Leave it empty if everybody may push."
        type="password"
        value={secret}
        onChange={setSecret}
      />
      {way === 'add-mirror' && (
        <TextField
          id="hand-over-node-secret"
          label="Pull secret of the nodes"
          help="JSON with an entry for the registry. Leave it empty if everybody may pull."
          type="password"
          value={nodeSecret}
          onChange={setNodeSecret}
        />
      )}
      <FormGroup label="CA of the registry (PEM)" fieldId="hand-over-ca">
        <TextArea
          id="hand-over-ca"
          className="landfall-yaml"
          rows={3}
          resizeOrientation="vertical"
          value={ca}
          onChange={(_event, value) => {
            setCA(value);
          }}
        />
      </FormGroup>
      <Checkbox
        id="hand-over-needed"
        label="Only what the clusters need"
        description="Copies only the releases with which dependent clusters were installed."
        isChecked={isNeededOnly}
        onChange={(_event, checked) => {
          setNeededOnly(checked);
        }}
      />
      <ActionButton variant="secondary" isDisabled={!isComplete} onAct={show}>
        Show what is copied
      </ActionButton>
      {failure && <Alert isInline variant="danger" title={failure} />}
      {plan && (
        <Alert isInline variant="info" title={handOverPlanText(plan)} data-testid="hand-over-plan">
          {notesOf(plan).map((note) => (
            <div key={note}>{note}</div>
          ))}
        </Alert>
      )}
    </FormDialog>
  );
};
