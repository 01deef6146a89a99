package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat/hub"
)

// The line that a person is answered connects their machine, in a direct message and in a
// room: the tap of another person does not count, what is sent arrives, and a machine
// that was revoked is told to join.
func TestAMachineJoinsByTheLineThatItsPersonIsAnswered(t *testing.T) {
	for _, room := range []string{"", "spaces/room"} {
		t.Run(room, func(t *testing.T) {
			x, home := newTestTeam(t), t.TempDir()
			x.AddSpace("room")
			code, space := x.joinCode(ann, room), max(room, x.AddDirectMessage(ann))
			run := func(args ...string) (exit int, said string) {
				cmd := bound.Command(t, builtProgram(t), args...)
				cmd.Stdin = strings.NewReader(code)
				cmd.Env = []string{"HOME=" + home, "PATH=/usr/bin:/bin"}
				out, _ := cmd.CombinedOutput()
				return cmd.ProcessState.ExitCode(), string(out)
			}
			tapped := make(chan bool)
			go func() {
				defer close(tapped)
				card := x.Await(space, "Tap this")
				for _, who := range []*chat.User{bob, ann} {
					if !x.Tap(who, card, "send", nil) {
						t.Errorf("%s cannot tap", who.Name)
					}
				}
			}()
			got, said := run("setup", "--hub", x.urls[0], "--code", "-", "--no-hooks")
			<-tapped
			if got != 0 || !strings.Contains(said, "users/1) tapped") || strings.Contains(said, "users/2)") {
				t.Fatalf("%d: %s", got, said)
			}
			x.Await(space, "Your taps arrive")
			if got, said := run("send", "hello from the machine"); got != 0 {
				t.Errorf("send: %d: %s", got, said)
			}
			x.Await(space, "hello from the machine")
			if _, said := run("doctor", "--all"); !strings.Contains(said, "the hub has version 1 of gchat-hooks") || strings.Contains(said, "fail  chat.post") {
				t.Errorf("doctor: %s", said)
			}
			for _, name := range []string{"config.json", "hub.json"} {
				// to the other replica, as a balancer leads there
				file := filepath.Join(home, ".config/gchat-hooks", name)
				b, err := os.ReadFile(file)
				if decides := strings.Contains(string(b), "users/2"); err != nil || decides != (room != "" && name == "config.json") {
					t.Errorf("%s, by the hub's policy: %s, %v", name, b, err)
				}
				kit.NoError(t, os.WriteFile(file, []byte(strings.ReplaceAll(string(b), x.urls[0], x.urls[1])), 0o600))
			}
			all, err := x.hubs[0].ListMachines(t.Context())
			if err != nil || len(all) != 1 {
				t.Fatalf("%+v, %v", all, err)
			}
			if err := x.hubs[0].Revoke(t.Context(), nil, hub.Machine{ID: all[0].ID}); err != nil {
				// its code has ended long ago
				t.Fatal(err)
			}
			got, said = run("doctor")
			if got == 0 || !strings.Contains(said, "write join to the app") {
				t.Errorf("revoked: %d: %s", got, said)
			}
			if refused := strings.Count(x.log.String(), `"code":403`); refused > 0 {
				t.Errorf("the hub refused %d requests: %s", refused, x.log.String())
			}
		})
	}
}
