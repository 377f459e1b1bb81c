package kube

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"landfall/appliance/kube/objects"
	"landfall/store"
	"landfall/web/kube/crds"
)

// seeded holds the digest of the custom resource definitions that were written last.
var seeded = store.NewBucket[string]("kubernetes-seeded", 1)

const definitionsKey = "resource-definitions"

var definitionKind = objects.Kind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition",
	Resource: "customresourcedefinitions"}

// seed writes the default namespace, the Deployments of the services, and the custom resource
// definitions of this program, unless the store has them already. A definition that a client
// changed is therefore replaced only by a version of the program with other definitions.
func (s *Server) seed(ctx context.Context) error {
	digest := crds.Digest()
	current, complete := false, false // the definitions are of this program; the store has all objects
	err := s.options.DB.View(func(tx *store.Tx) error {
		have, err := seeded.Get(tx, definitionsKey)
		if errors.Is(err, store.ErrNotFound) || store.IsDamaged(err) {
			return nil
		}
		current = err == nil && *have == digest
		complete = current
		for _, name := range services() {
			complete = complete && s.options.Objects.Exists(tx, deploymentKind, servicesNamespace, name)
		}
		for _, name := range ownDefinitions() { // earlier versions let clients delete them
			complete = complete && s.options.Objects.Exists(tx, definitionKind, "", name)
		}
		return err
	})
	if err != nil || complete {
		return err
	}
	now := s.options.Clock.Now()
	// The server waits two seconds for newly established definitions.
	definitions, err := crds.Rows(now.Add(-time.Minute))
	if err != nil {
		return err
	}
	return s.options.DB.Update(ctx, func(tx *store.Tx) error {
		for _, definition := range definitions {
			if current && s.options.Objects.Exists(tx, definitionKind, "", definition.Name) {
				continue
			}
			if err := Rows().Put(tx, definitionKind.Key("", definition.Name), definition.Object); err != nil {
				return fmt.Errorf("write the definition of %s: %w", definition.Name, err)
			}
		}
		if err := s.options.Objects.EnsureNamespace(tx, metav1.NamespaceDefault, now); err != nil {
			return err
		}
		if err := s.seedServices(tx, now); err != nil {
			return err
		}
		return seeded.Put(tx, definitionsKey, &digest)
	})
}

// A hub runs the Assisted Installer as two Deployments, and users check their status. Here both
// Deployments represent this process: their rows can be read only while it runs.

const servicesNamespace = "open-cluster-management"

func services() []string { return []string{"assisted-service", "assisted-image-service"} }

var deploymentKind = objects.Kind{Group: "apps", Version: "v1", Kind: "Deployment", Resource: "deployments",
	Namespaced: true}

func (s *Server) seedServices(tx *store.Tx, now time.Time) error {
	if err := s.options.Objects.EnsureNamespace(tx, servicesNamespace, now); err != nil {
		return err
	}
	for _, name := range services() {
		one, labels := int32(1), map[string]string{"app": name}
		err := s.options.Objects.Create(tx, deploymentKind, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: servicesNamespace, Name: name, Labels: labels},
			Spec: appsv1.DeploymentSpec{
				Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}},
			},
			Status: appsv1.DeploymentStatus{
				Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1, ObservedGeneration: 1,
				Conditions: []appsv1.DeploymentCondition{{
					Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Reason: "MinimumReplicasAvailable",
					Message:            "The service is a part of the appliance, which is running.",
					LastUpdateTime:     metav1.NewTime(now.Truncate(time.Second)),
					LastTransitionTime: metav1.NewTime(now.Truncate(time.Second)),
				}},
			},
		}, now)
		if err != nil && !errors.Is(err, objects.ErrExists) {
			return err
		}
	}
	return nil
}
