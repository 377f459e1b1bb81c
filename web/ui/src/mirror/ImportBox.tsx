import { Button, Card, CardBody, CardTitle, Content, List, ListItem } from '@patternfly/react-core';
import { useRef, useState } from 'react';
import { useMay } from '../access/AccessProvider';
import { Confirm } from '../shell/Confirm';
import { sentenceOf } from '../shell/request';
import { removeImport, sameLevel, type Import, type MirrorModel, type Place } from './api';
import type { Dropped } from './drop';

type Props = {
  imports: MirrorModel['imports'];
  places: Place[];
  isImporting: boolean;
  take: (dropped: Dropped) => void;
  changed: () => void;
  failed: (sentence: string) => void;
};

/** The list of imports, and a form for another one. */
export const ImportBox = ({ imports, places, isImporting, take, changed, failed }: Props) => {
  const mayImport = useMay('admin');
  const input = useRef<HTMLInputElement>(null);
  const [removed, setRemoved] = useState<Import>();
  const placeOf = (one: Import) => places.find(({ level }) => sameLevel(level, one))?.label;
  const formerPlace = removed && placeOf(removed);
  const remove = async (gone: Import) => {
    try {
      await removeImport(gone, gone.name);
    } catch (thrown) {
      failed(sentenceOf(thrown));
    }
    changed();
  };
  return (
    <Card>
      <CardTitle>Imports</CardTitle>
      <CardBody>
        <Content component="p">
          {mayImport
            ? 'Drop a directory of oc-mirror, its archive, a registries.conf, mirror sets or CA certificates ' +
              'anywhere on this page.'
            : 'Administrators import directories of oc-mirror, mirror sets and CA certificates here.'}{' '}
          Imports override the configuration; imports for an infra-env override those for all clusters, and imports for
          a cluster override both.
        </Content>
        <List isPlain aria-label="Imports">
          {imports.map((one) => (
            <ListItem key={[one.cluster_id, one.infra_env_id, one.name].join('/')} data-testid="import">
              {one.name}, for {placeOf(one) ?? 'a deleted object'}, {new Date(one.imported).toLocaleString()}:{' '}
              {one.files.length} files
              {one.ignored.length > 0 && `, ${String(one.ignored.length)} ignored`}{' '}
              {mayImport && (
                <Button
                  variant="link"
                  isInline
                  onClick={() => {
                    setRemoved(one);
                  }}
                >
                  Remove
                </Button>
              )}
            </ListItem>
          ))}
        </List>
        {mayImport && (
          <>
            <input
              ref={input}
              type="file"
              hidden
              aria-label="File to import"
              onChange={(event) => {
                const file = event.target.files?.[0];
                if (file) {
                  take({ name: file.name, files: [{ path: file.name, file }] });
                }
                event.target.value = '';
              }}
            />
            <Button
              variant="secondary"
              isLoading={isImporting}
              isAriaDisabled={isImporting}
              onClick={() => input.current?.click()}
            >
              Import a file
            </Button>
          </>
        )}
      </CardBody>
      {removed && (
        <Confirm
          title={`Remove the import ${removed.name}?`}
          action="Remove"
          onConfirm={() => void remove(removed)}
          onClose={() => {
            setRemoved(undefined);
          }}
        >
          {formerPlace
            ? `Its rules no longer apply to ${formerPlace}.`
            : 'Its cluster or infra-env was deleted, so its rules apply to nothing.'}{' '}
          Without the import, its certificates are no longer trusted. To use them again, import the files again.
        </Confirm>
      )}
    </Card>
  );
};
