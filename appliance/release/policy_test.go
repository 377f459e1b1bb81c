package release

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"

	"landfall/appliance/simulate/registry"
)

func TestInstaller_policy(t *testing.T) {
	l, pushed := standIn(t, registry.Payload{})
	p, err := l.Payload(t.Context(), pushed.Release, "", nil)
	require.NoError(t, err)

	l.policy = onlyRelease("sha256:" + strings.Repeat("0", 64))
	_, _, err = l.Installer(t.Context(), p, nil, nil)
	require.ErrorIs(t, err, errNotAllowed)
	requireNoInstaller(t, l)

	l.policy = nil
	_, _, err = l.Installer(t.Context(), p, nil, nil)
	require.ErrorContains(t, err, "no policy decides which releases are allowed")
	requireNoInstaller(t, l)

	l.policy = onlyRelease(p.Digest)
	_, release, err := l.Installer(t.Context(), p, nil, nil)
	require.NoError(t, err)
	release()

	// The cache holds the program now. A release that is no longer allowed is still rejected.
	l.policy = onlyRelease("")
	_, _, err = l.Installer(t.Context(), p, nil, nil)
	require.ErrorIs(t, err, errNotAllowed)
}

func requireNoInstaller(t *testing.T, l *Library) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(l.installersDir(), "*"))
	require.NoError(t, err)
	require.Empty(t, found)
}

// TestInstaller_movedTag moves a tag after the policy allowed the release behind it.
func TestInstaller_movedTag(t *testing.T) {
	l, good := standIn(t, registry.Payload{})
	allowed, err := l.Payload(t.Context(), good.Release, "", nil)
	require.NoError(t, err)
	reg, err := registry.New(t.Context(), "127.0.0.1:0", nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, reg.Close()) })
	other, err := registry.PushPayload(t.Context(), reg.Addr, registry.Payload{Installer: "#!/bin/sh\n"})
	require.NoError(t, err)
	require.NotEqual(t, good.Digest, other.Digest)

	tag := reg.Addr + "/openshift/release-images:latest"
	point := func(spec string) {
		from, err := name.ParseReference(spec)
		require.NoError(t, err)
		image, err := remote.Get(from)
		require.NoError(t, err)
		to, err := name.NewTag(tag)
		require.NoError(t, err)
		require.NoError(t, remote.Tag(to, image))
	}
	require.NoError(t, copyRelease(t.Context(), allowed.ServedBy, reg.Addr+"/openshift/release-images@"+good.Digest))
	point(reg.Addr + "/openshift/release-images@" + good.Digest)
	l.policy = onlyRelease(good.Digest)
	p, err := l.Payload(t.Context(), tag, "", nil)
	require.NoError(t, err)
	_, release, err := l.Installer(t.Context(), p, nil, nil)
	require.NoError(t, err)
	release()

	point(reg.Addr + "/openshift/release-images@" + other.Digest)
	p, err = l.Payload(t.Context(), tag, "", nil)
	require.NoError(t, err)
	_, _, err = l.Installer(t.Context(), p, nil, nil)
	require.ErrorIs(t, err, errNotAllowed)
}

func copyRelease(ctx context.Context, from, to string) error {
	source, err := name.ParseReference(from)
	if err != nil {
		return err
	}
	image, err := remote.Image(source, remote.WithContext(ctx))
	if err != nil {
		return err
	}
	target, err := name.ParseReference(to)
	if err != nil {
		return err
	}
	return remote.Write(target, image, remote.WithContext(ctx))
}

// TestInstaller_componentByTag rejects a release whose digest does not determine its program.
func TestInstaller_componentByTag(t *testing.T) {
	s := newSite(t)
	l := s.library()
	p := s.installerPayload(layer(t, file("usr/bin/openshift-install", "program")))
	p.Images[TagInstaller] = s.host + "/ocp/image:latest"
	_, _, err := l.Installer(t.Context(), p, nil, nil)
	require.ErrorContains(t, err, "by a tag")
}
