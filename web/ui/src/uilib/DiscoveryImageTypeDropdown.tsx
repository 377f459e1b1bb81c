import {
  Dropdown,
  DropdownItem,
  DropdownList,
  FormGroup,
  MenuToggle,
  type MenuToggleElement,
} from '@patternfly/react-core';
import { useField } from 'formik';
import { useNewFeatureSupportLevel } from 'ui-lib/common/components/newFeatureSupportLevels';
import { useState, type ComponentProps, type Ref } from 'react';
import LibraryDropdown, {
  discoveryImageTypes,
} from 'ui-lib/ocm/components/clusterConfiguration/DiscoveryImageTypeDropdown';

export { discoveryImageTypes };

type ImageType = keyof typeof discoveryImageTypes;

/**
 * The choice of what hosts boot from. The library's one offers every kind; this one says of those that the appliance
 * does not make that it does not, instead of letting a person find out afterwards.
 */
const DiscoveryImageTypeDropdown = ({
  name,
  onChange,
  isDisabled,
}: ComponentProps<typeof LibraryDropdown>) => {
  const [field, , { setValue }] = useField<ImageType>(name);
  const [isOpen, setOpen] = useState(false);
  const { isFeatureSupported } = useNewFeatureSupportLevel();
  const fieldId = `form-input-${name}-field`;
  const choose = (type: ImageType) => {
    setValue(type);
    setOpen(false);
    onChange(type === 'discovery-image-ipxe');
  };
  const choice = (type: ImageType, isMade: boolean, whatFor: string) => (
    <DropdownItem
      key={type}
      id={type}
      isDisabled={!isMade}
      description={isMade ? whatFor : 'This version of the appliance does not make it yet'}
      onClick={() => {
        choose(type);
      }}
    >
      {discoveryImageTypes[type]}
    </DropdownItem>
  );
  return (
    <FormGroup fieldId={fieldId} label="Provisioning type">
      <Dropdown
        isOpen={isOpen}
        onOpenChange={setOpen}
        toggle={(ref: Ref<MenuToggleElement>) => (
          <MenuToggle
            id={fieldId}
            ref={ref}
            isFullWidth
            isExpanded={isOpen}
            isDisabled={isDisabled}
            onClick={() => {
              setOpen(!isOpen);
            }}
            data-testid="discovery-image-type-dropdown-toggle"
          >
            {discoveryImageTypes[field.value]}
          </MenuToggle>
        )}
      >
        <DropdownList>
          {choice('full-iso', true, 'Everything needed to boot is in the image')}
          {choice(
            'minimal-iso',
            isFeatureSupported('MINIMAL_ISO'),
            'A small image, for slow virtual media: the rest is fetched while booting',
          )}
          {choice('discovery-image-ipxe', false, '')}
        </DropdownList>
      </Dropdown>
    </FormGroup>
  );
};

export default DiscoveryImageTypeDropdown;
