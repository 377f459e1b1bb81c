package state

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/doctor"
	"landfall/web/console"
)

func TestStatus_protectionsHaveTheWordsOfTheDoctor(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, writeStatus(&out, &console.Status{Protections: []doctor.Finding{
		{Subject: "TLS", Status: doctor.Green, Result: "It is on."},
		{Subject: "Sandbox", Status: doctor.Red, Result: "It is off.", Advice: "Switch it on."},
	}}))
	require.Contains(t, out.String(), "  passed  TLS: It is on.\n"+
		"  failed  Sandbox: It is off.\n          Switch it on.\n")
}
