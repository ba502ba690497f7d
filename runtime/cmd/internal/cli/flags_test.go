package cli

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

func TestFlagsThatCanNotBeReadAreExplained(t *testing.T) {
	for args, want := range map[[2]string]string{
		{"--cluster=3"}:                 `"muster up" has no flag --cluster: did you mean --clusters? Or see "muster up --help"`,
		{"--log-jsno"}:                  `"muster up" has no flag --log-jsno: did you mean --log-json? Or see "muster up --help"`,
		{"--verbatim"}:                  `"muster up" has no flag --verbatim: see "muster up --help"`,
		{"--secre=x"}:                   `"muster up" has no flag --secre: see "muster up --help"`, // it is hidden
		{"-x"}:                          `unknown shorthand flag: 'x' in -x: see "muster up --help"`,
		{"--clusters"}:                  `--clusters needs a value, a whole number such as 3: see "muster up --help"`,
		{"--name"}:                      `--name needs a value, which its help describes: see "muster up --help"`,
		{"--clusters", "three"}:         `--clusters "three" is not a whole number such as 3: see "muster up --help"`,
		{"--address", "127.0.0.1:6443"}: `--address "127.0.0.1:6443" is not an IP address such as 0.0.0.0, without a port: see "muster up --help"`,
		{"--wait", "5"}:                 `--wait "5" is not a duration such as 90s or 5m: see "muster up --help"`,
		{"--log-json=perhaps"}:          `--log-json "perhaps" is not true or false: see "muster up --help"`,
		{"--labels", "a"}:               `--labels "a" is not a list such as key=value,key=value: see "muster up --help"`,
	} {
		root := NewRoot()
		up := &cobra.Command{Use: "up", RunE: func(*cobra.Command, []string) error { return nil }}
		f := up.Flags()
		f.Int("clusters", 3, "")
		f.String("name", "", "")
		f.String("secret", "", "")
		f.IP("address", net.IPv4zero, "")
		f.Duration("wait", time.Second, "")
		f.StringToString("labels", nil, "")
		if err := f.MarkHidden("secret"); err != nil {
			t.Fatal(err)
		}
		root.AddCommand(up)
		root.SetFlagErrorFunc(explainFlag)
		root.SetOut(io.Discard)
		given := []string{"up", args[0]}
		if args[1] != "" {
			given = append(given, args[1])
		}
		root.SetArgs(given)
		if err := root.Execute(); err == nil || err.Error() != want {
			t.Errorf("%v: %v, want %s", given, err, want)
		}
	}
}

// -v goes without a number, and with one as it always did.
func TestVerbosityGoesWithoutANumber(t *testing.T) {
	for args, want := range map[string]struct {
		verbosity int
		rest      string
	}{
		"up":                  {0, ""},
		"up -v":               {2, ""},
		"up --v":              {2, ""},
		"-v up":               {2, ""},
		"up -v 4":             {4, ""},
		"up -v=4":             {4, ""},
		"up -v4":              {4, ""},
		"up --v 4":            {4, ""},
		"up --v=0":            {0, ""},
		"-v 6 up":             {6, ""},
		"up -v -1":            {-1, ""},
		"up -v one":           {2, "one"},
		"up -v --name x":      {2, ""},
		"up --name v 3":       {0, "3"},
		"up one -v 3 two":     {3, "one two"},
		"up -v -- 5":          {2, "5"},
		"up -- -v 5":          {0, "-v 5"},
		"up --name=-v -v one": {2, "one"},
	} {
		root := NewRoot()
		var rest []string
		up := &cobra.Command{Use: "up", Args: cobra.ArbitraryArgs, RunE: func(_ *cobra.Command, args []string) error {
			rest = args
			return nil
		}}
		up.Flags().String("name", "", "")
		root.AddCommand(up)
		root.SetOut(io.Discard)
		root.SetArgs(JoinVerbosity(strings.Fields(args)))
		if err := root.Execute(); err != nil {
			t.Errorf("%q: %v", args, err)
			continue
		}
		if got, err := up.Flags().GetInt("v"); err != nil || got != want.verbosity || strings.Join(rest, " ") != want.rest {
			t.Errorf("%q: verbosity %d and arguments %q, want %d and %q", args, got, rest, want.verbosity, want.rest)
		}
	}
}
