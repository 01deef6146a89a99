package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/kit"
)

// startJoined starts a Claude Code on a machine that a person has joined to the hub with
// the line from the app: by a direct message, or in a named space.
func startJoined(t *testing.T, c claude, g *fakeGoogle, hubs []*replica, u *chat.User, space string,
	cfg config) *session {
	t.Helper()
	line, code := g.joinLine(u, space)
	cfg.Env = append(cfg.Env, "GCHAT_POLLER_INTERVAL=0.2")
	cfg.Prepare = func(t *testing.T, home, project string) {
		args := append(strings.Fields(line)[1:], "--code", "-", "--round-trip=false", "--approve")
		runWithInput(t, code, project, personEnv(c, home), builtProgram(t), args...)
	}
	return startSession(t, c, cfg)
}

// Three machines of two people share one app, through two replicas of the hub: one
// machine of Ann's asks in her direct message, one in a named space, and Bob's in his.
// Each person answers what is theirs, by tap and by words, and nothing of a colleague's.
func TestTeam_AnswersOnlyTheirOwn(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		g := newFakeGoogle(t)
		t.Cleanup(func() {
			if t.Failed() {
				for _, space := range []string{"spaces/dm1", "spaces/dm2", "spaces/room"} {
					for _, m := range g.Messages(space) {
						t.Logf("%s: %s: %s %q", space, m.Sender.Name, m.ClientAssignedMessageId,
							m.Text+m.FallbackText)
					}
				}
			}
		})
		room := g.AddSpace("room")
		policy := filepath.Join(t.TempDir(), "policy.json")
		writeFile(t, policy, map[string]any{"spaces": map[string][]string{room: {bob.Name}}})
		hubs := startReplicas(t, g, 2, "--policy", policy)
		asks := func(folder string) []turn {
			return []turn{
				{questionCall(deployQuestion)}, {bash("mkdir " + folder)}, askBackTurn,
				{textBlock("Done with " + folder + ".")},
			}
		}
		planned := inPlanMode(slices.Insert(asks("three"), 1, planTurn("# The plan"))...)
		laptop := startJoined(t, c, g, hubs, ann, "", config{Script: asks("one")})
		server := startJoined(t, c, g, hubs, ann, room, config{Script: asks("two")})
		bobs := startJoined(t, c, g, hubs, bob, "", planned)
		bobs.promptPlan("# The plan")
		carol := person(3, "carol@example.com")
		laptop.Prompt("go ahead")
		server.Prompt("go ahead")
		message, two, three := g.Await("spaces/dm1", deployQuestion.Question),
			g.Await(room, deployQuestion.Question), g.Await("spaces/dm2", deployQuestion.Question)

		// Who is asked nothing decides nothing: a member of the room, and Bob with a card
		// of his own that carries Ann's button.
		g.Tap(carol, two, "1", nil)
		stolen := *three
		stolen.CardsV2 = message.CardsV2
		g.TapOn(bob, &stolen, "3")
		g.Tap(ann, message, "2", nil)
		g.Tap(bob, two, "3", nil)
		g.Tap(bob, three, "1", nil)
		for _, each := range []struct {
			s    *session
			told string
		}{{laptop, "Rolling"}, {server, "Canary"}, {bobs, deployQuestion.Options[0].Label}} {
			each.s.API.WaitToolResult(t, 1)
			kit.Containsf(t, each.s.API.lastMainText(), each.told, "Claude was not told")
		}
		plan := g.Await("spaces/dm2", "The plan")
		g.Tap(bob, plan, "approve", nil)

		message, two, three = g.Await("spaces/dm1", "mkdir one"), g.Await(room, "mkdir two"),
			g.Await("spaces/dm2", "mkdir three")
		g.Say(carol, room, two, "no")
		g.Tap(ann, message, "allow", nil)
		g.Say(ann, room, two, "yes")
		g.Say(bob, "spaces/dm2", three, "no, use git mv")

		message, two, three = g.Await("spaces/dm1", "Shall I commit?"),
			g.Await(room, "Shall I commit?"), g.Await("spaces/dm2", "Shall I commit?")
		g.Say(ann, "spaces/dm1", message, "commit one")
		g.Say(bob, room, two, "commit two")
		g.Tap(bob, three, "send", map[string]string{"w1": "commit three"})
		for folder, s := range map[string]*session{"one": laptop, "two": server, "three": bobs} {
			s.API.WaitText(t, "commit "+folder)
			_, err := os.Stat(filepath.Join(s.Dir, folder))
			kit.Equalf(t, err == nil, (folder != "three"), "the folder %s is there", folder)
			kit.Equalf(t, s.API.CountText("commit "+folder), 1, "Claude has commit %s", folder)
		}
		if bobs.API.CountText("git mv") == 0 {
			t.Error("Bob's reason is not told")
		}

		// What one machine wrote stands where it belongs, under its own ids.
		ids := map[string][]string{}
		for _, space := range []string{"spaces/dm1", room, "spaces/dm2"} {
			for _, m := range g.Messages(space) {
				if parts := strings.Split(m.ClientAssignedMessageId, "-"); len(parts) > 2 &&
					!slices.Contains(ids[space], parts[1]) {
					ids[space] = append(ids[space], parts[1])
				}
				b := kit.JSON(t, m)
				for folder, where := range map[string]string{
					"one": "spaces/dm1", "two": room, "three": "spaces/dm2",
				} {
					if strings.Contains(string(b), "mkdir "+folder) && space != where {
						t.Errorf("%s has a message about %s", space, folder)
					}
				}
			}
			kit.Equalf(t, len(ids[space]), 1, "machines that wrote into %s: %q", space, ids[space])
		}
	})
}
