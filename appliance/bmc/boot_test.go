package bmc

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/simulate/redfish"
)

func TestBoot_everyVendor(t *testing.T) {
	for _, profile := range redfish.Profiles() {
		t.Run(profile.Name, func(t *testing.T) {
			t.Parallel()
			s := newTestSite(t)
			b := s.startBMC(profile.Name)
			_, err := s.manager.Ensure(context.Background(), "n1", desired(b))
			require.NoError(t, err)
			server := s.await("n1", available)
			require.Equal(t, profile.Model, server.System.Model)
			require.Equal(t, PowerOn, server.Power)

			_, err = s.manager.Boot(context.Background(), "n1", "", false)
			require.NoError(t, err)
			server = s.await("n1", provisioned)
			require.Nil(t, server.Error)
			require.Equal(t, s.image, b.Inserted())
			require.Eventually(t, func() bool { return len(b.Boots()) > 0 }, time.Minute, time.Millisecond)
			require.Equal(t, []redfish.Started{{From: "cd", Image: s.image}}, b.Boots())
			require.Zero(t, b.Sessions(), "sessions are deleted")
		})
	}
}
