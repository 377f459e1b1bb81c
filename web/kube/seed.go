package kube

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"landfall/appliance/objects"
	"landfall/store"
	"landfall/web/kube/crds"
)

// seeded notes which generation of the resource definitions was written.
var seeded = store.NewBucket[string]("kubernetes-seeded", 1)

const definitionsKey = "resource-definitions"

var definitionKind = objects.Kind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition", Resource: "customresourcedefinitions"}

// seed writes the resource definitions, if they are not those of this program yet, and the namespace that every cluster has. A definition
// that a client has altered since stays as it is until there is a newer one.
func (s *Server) seed(ctx context.Context) error {
	digest := crds.Digest()
	current := false
	err := s.options.DB.View(func(tx *store.Tx) error {
		have, err := seeded.Get(tx, definitionsKey)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		current = err == nil && *have == digest
		return err
	})
	if err != nil || current {
		return err
	}
	now := s.options.Clock.Now()
	// The server waits two seconds with what was established just now.
	definitions, err := crds.Rows(now.Add(-time.Minute))
	if err != nil {
		return err
	}
	return s.options.DB.Update(ctx, func(tx *store.Tx) error {
		for _, definition := range definitions {
			if err := Rows().Put(tx, definitionKind.Key("", definition.Name), definition.Object); err != nil {
				return fmt.Errorf("write the definition of %s: %w", definition.Name, err)
			}
		}
		if err := s.options.Objects.EnsureNamespace(tx, metav1.NamespaceDefault, now); err != nil {
			return err
		}
		return seeded.Put(tx, definitionsKey, &digest)
	})
}
