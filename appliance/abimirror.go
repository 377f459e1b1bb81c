package appliance

import (
	"context"

	"landfall/appliance/mirror"
)

// abiMirror implements abi.Mirror.
type abiMirror struct{ *siteMirror }

// Import adds rules to a level, or replaces those of the same name.
func (m abiMirror) Import(ctx context.Context, level mirror.Level, name string, rules *mirror.Import) error {
	_, err := m.siteMirror.Import(ctx, level, name, rules)
	return err
}

// Imported returns the rules that were imported for a level under a name, nil if there are none.
func (m abiMirror) Imported(level mirror.Level, name string) (*mirror.Import, error) {
	all, err := m.imports()
	if err != nil {
		return nil, err
	}
	for _, one := range all {
		if one.Name == name && one.Level == level {
			return &one.Import, nil
		}
	}
	return nil, nil
}

// Rules returns the rules of a level.
func (m abiMirror) Rules(level mirror.Level) *mirror.Rules { return m.at(level).Rules() }
