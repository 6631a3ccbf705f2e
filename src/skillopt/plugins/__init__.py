"""What SkillOpt's plugins for agents are made from: their port, the texts, and how this program is called."""
