package handover

import (
	"context"
	"errors"
	"fmt"

	"landfall/appliance/registry"
	"landfall/store"
)

// rows stores the hand-over under rowKey. A damaged one counts as none, so that the appliance
// starts: its clusters then depend on the appliance's registry again, until the next hand-over.
var rows = store.NewBucket[row]("registry-hand-over", 1).Derived()

const rowKey = "current"

// row is the stored hand-over. The secrets are sealed.
type row struct {
	Status
	CA         string `json:"ca"`
	PullSecret string `json:"pull_secret"`
	NodeSecret string `json:"node_secret"`
}

func (s *Service) read() (found *row, err error) {
	err = s.DB.View(func(tx *store.Tx) error {
		found, err = rows.Get(tx, rowKey)
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil, errNone
	}
	if err != nil {
		return nil, fmt.Errorf("read the hand-over of the registry: %w", err)
	}
	return found, nil
}

func (s *Service) write(ctx context.Context, changed *row) error {
	if err := s.DB.Update(ctx, func(tx *store.Tx) error { return rows.Put(tx, rowKey, changed) }); err != nil {
		return fmt.Errorf("store the hand-over of the registry: %w", err)
	}
	return nil
}

// change changes the row.
func (s *Service) change(ctx context.Context, with func(*row) error) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	found, err := s.read()
	if err != nil {
		return err
	}
	switch err := with(found); {
	case errors.Is(err, errUnchanged):
		return nil
	case err != nil:
		return err
	}
	return s.write(ctx, found)
}

// Place returns the registry that was handed over to, or nil. A database without a hand-over has
// none.
func Place(db *store.DB, roots []byte) (*registry.Place, error) {
	s := &Service{Options: Options{DB: db, Roots: roots}}
	found, err := s.read()
	if errors.Is(err, errNone) {
		return nil, nil
	}
	if err != nil || found.State != Done {
		return nil, err
	}
	return s.placeOf(found), nil
}

// placeOf returns where nodes find the images after a hand-over.
func (s *Service) placeOf(of *row) *registry.Place {
	place := &registry.Place{Host: of.To, CA: []byte(of.CA)}
	if of.Way == MoveName {
		place.Host = of.Name
		place.CA = append(append([]byte{}, s.Roots...), of.CA...)
	}
	return place
}
